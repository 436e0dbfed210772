#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

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

/// Looks at the front of `text`, which must not be empty. Strict: no overlong forms, no surrogates, nothing above
/// U+10FFFF.
utf8_step utf8_next(std::string_view text);

/// The code point of a whole, valid character.
char32_t utf8_code_point(std::string_view character);

/// Bytes at the front of `text` that are valid UTF-8 as a whole.
std::size_t utf8_valid_prefix(std::string_view text);

inline constexpr std::string_view utf8_replacement = "\xEF\xBF\xBD";

}  // namespace kvern
