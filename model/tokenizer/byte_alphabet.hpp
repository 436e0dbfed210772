#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvern {

/// The alphabet of byte-level BPE: each byte stands in the vocabulary as one printable character.

/// The character of a byte, UTF-8. Lives for ever.
std::string_view byte_character(std::uint8_t byte);

/// Appends the characters of all bytes of `bytes`.
void append_characters(std::string_view bytes, std::string& out);

/// Appends the bytes that the characters of `text` stand for. What is no character of the alphabet stands for itself.
void append_bytes(std::string_view text, std::string& out);

}  // namespace kvern
