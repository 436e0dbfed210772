#pragma once

#include <string>
#include <string_view>

namespace kvern {

/// SentencePiece writes a space as U+2581.
inline constexpr std::string_view escaped_space = "\xE2\x96\x81";

/// Appends `text` with each space as U+2581.
void append_escaped(std::string_view text, std::string& out);
/// Appends `text` with each U+2581 as a space.
void append_unescaped(std::string_view text, std::string& out);

}  // namespace kvern
