#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kvern::actors {

/// Bytes at the end of `text` that may be the beginning of a UTF-8 character whose rest is still to come: 0 to 3.
std::size_t incomplete_tail(std::string_view text);

/// `text` with every maximal part that is not UTF-8 replaced by one U+FFFD.
std::string replace_invalid(std::string_view text);

}  // namespace kvern::actors
