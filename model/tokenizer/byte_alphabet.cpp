#include "model/tokenizer/byte_alphabet.hpp"

#include <array>
#include <cstddef>

#include "base/utf8.hpp"

namespace kvern {
namespace {

constexpr std::size_t alphabet_end = 0x144;
constexpr std::int16_t no_byte = -1;

struct alphabet {
  std::array<std::array<char, 2>, 256> characters{};
  std::array<std::uint8_t, 256> lengths{};
  std::array<std::int16_t, alphabet_end> bytes{};
};

/// Printable Latin-1 stands for itself; the other bytes, in order, take the code points from U+0100 on.
constexpr alphabet make_alphabet() {
  alphabet a;
  for (auto& byte : a.bytes) byte = no_byte;
  unsigned moved = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    const unsigned point = printable ? byte : moved++;
    a.bytes[point] = static_cast<std::int16_t>(byte);
    if (point < 0x80) {
      a.characters[byte] = {static_cast<char>(point), 0};
      a.lengths[byte] = 1;
    } else {
      a.characters[byte] = {static_cast<char>(0xC0U | (point >> 6)), static_cast<char>(0x80U | (point & 0x3FU))};
      a.lengths[byte] = 2;
    }
  }
  return a;
}

constexpr alphabet letters = make_alphabet();

}  // namespace

std::string_view byte_character(std::uint8_t byte) { return {letters.characters[byte].data(), letters.lengths[byte]}; }

void append_characters(std::string_view bytes, std::string& out) {
  for (const char c : bytes) out += byte_character(static_cast<std::uint8_t>(c));
}

void append_bytes(std::string_view text, std::string& out) {
  while (!text.empty()) {
    const utf8_step step = utf8_next(text);
    const std::string_view character = text.substr(0, step.length);
    text.remove_prefix(step.length);
    const char32_t point = step.state == utf8_state::valid ? utf8_code_point(character) : alphabet_end;
    if (point < alphabet_end && letters.bytes[point] != no_byte) {
      out += static_cast<char>(letters.bytes[point]);
    } else {
      out += character;
    }
  }
}

}  // namespace kvern
