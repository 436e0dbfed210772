#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

/// UTF-8, strictly: no overlong forms, no surrogates, nothing above U+10FFFF. Pure functions, linear in the text.

namespace kvern {

enum class utf8_state : std::uint8_t {
  valid,       ///< one whole character
  invalid,     ///< bytes that cannot begin any character
  incomplete,  ///< the text ends inside a character that is well-formed so far
};

/// What stands at the front of a text.
struct utf8_step {
  utf8_state state;
  /// Bytes of it, at least 1. `invalid`: the longest part that could have begun a character, which one U+FFFD replaces.
  std::size_t length;
};

/// Looks at the front of `text`, which must not be empty.
utf8_step utf8_next(std::string_view text);

/// The code point of a whole, valid character.
char32_t utf8_code_point(std::string_view character);

/// Bytes at the front of `text` that are valid UTF-8 as a whole.
std::size_t utf8_valid_prefix(std::string_view text);

bool utf8_valid(std::string_view text);

/// Bytes at the end of `text` that may be the beginning of a character whose rest is still to come: 0 to 3.
std::size_t utf8_incomplete_tail(std::string_view text);

/// Characters of a valid text. In any other: bytes that are no continuation of a character.
std::size_t utf8_length(std::string_view text);

/// U+FFFD.
inline constexpr std::string_view utf8_replacement = "\xEF\xBF\xBD";

/// `text` with every maximal part that is not UTF-8 replaced by one U+FFFD.
std::string utf8_repaired(std::string_view text);

}  // namespace kvern
