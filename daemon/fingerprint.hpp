#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace kvern::daemon {

/// One thing that decides the bits of a cache's lines, and what it is.
struct fingerprint_part {
  std::string_view tag;
  std::string_view value;
};

/// All parts as one text. Each tag and value stands behind its length, so that no two lists of parts give one text.
std::string fingerprint(std::span<const fingerprint_part> parts);

/// The XXH3-128 of a file, as `xxhsum -H2` prints it; of several files, that of their hashes. Reads every byte.
std::string content_hash(std::span<const std::span<const std::byte>> files);

}  // namespace kvern::daemon
