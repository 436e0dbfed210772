#pragma once

#include <cstdint>
#include <cstdlib>

namespace kvern::gpu {

/// A number of the environment: KVERN_SEED, the first of the seeds; KVERN_HISTORIES, how many, for a longer search.
inline std::uint64_t number_from(const char* name, std::uint64_t absent) {
  const char* given = std::getenv(name);
  return given == nullptr ? absent : std::strtoull(given, nullptr, 10);
}

}  // namespace kvern::gpu
