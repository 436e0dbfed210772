#pragma once

#include <string>

namespace kvern::actors {

/// A session's name that nobody can guess: "s-" and 128 bits from the kernel in 32 hexadecimal digits. Empty when the
/// kernel has none to give.
std::string make_session_id();

}  // namespace kvern::actors
