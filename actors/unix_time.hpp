#pragma once

#include <chrono>
#include <cstdint>

namespace kvern::actors {

/// Seconds since 1970, of the system's clock.
inline std::int64_t unix_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace kvern::actors
