#pragma once

#include <expected>
#include <string>
#include <string_view>

namespace kvern::chat {

/// The value of a string literal's inside, escapes resolved as Python does; an unknown escape stays as it is written.
/// The error is the reason: a cut-off escape, a code point out of range, a \N{name} (not supported).
std::expected<std::string, std::string> unescape(std::string_view inside);

}  // namespace kvern::chat
