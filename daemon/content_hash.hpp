#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace kvern::daemon {

/// The XXH3-128 of a file, as `xxhsum -H2` prints it; of several files, that of their hashes. Reads every byte.
std::string content_hash(std::span<const std::span<const std::byte>> files);

}  // namespace kvern::daemon
