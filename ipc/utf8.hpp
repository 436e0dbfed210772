#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kvern::ipc {

/// Length of the well-formed UTF-8 character at the start of `text` (1 to 4), or 0 when there is none.
std::size_t utf8_character(std::string_view text);

bool is_utf8(std::string_view text);

/// `text` with every byte that is part of no well-formed character replaced by U+FFFD: what JSON may carry.
std::string to_utf8(std::string_view text);

/// Bytes in `text` that begin a character: its length in code points, when it is well formed.
std::size_t utf8_length(std::string_view text);

}  // namespace kvern::ipc
