#include "ipc/utf8.hpp"

namespace kvern::ipc {
namespace {

bool in(char c, unsigned low, unsigned high) {
  const auto u = static_cast<unsigned char>(c);
  return u >= low && u <= high;
}

}  // namespace

std::size_t utf8_character(std::string_view text) {
  if (text.empty()) return 0;
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const std::size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() < size) return 0;
  // The second byte's range rules out overlong forms, surrogates and what lies above U+10FFFF.
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (!in(text[1], low, high)) return 0;
  for (std::size_t i = 2; i < size; ++i) {
    if (!in(text[i], 0x80, 0xBF)) return 0;
  }
  return size;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t size = utf8_character(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

std::string to_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t size = utf8_character(text);
    if (size == 0) {
      out += "\xEF\xBF\xBD";
      text.remove_prefix(1);
    } else {
      out += text.substr(0, size);
      text.remove_prefix(size);
    }
  }
  return out;
}

std::size_t utf8_length(std::string_view text) {
  std::size_t n = 0;
  for (const char c : text) {
    if (!in(c, 0x80, 0xBF)) ++n;
  }
  return n;
}

}  // namespace kvern::ipc
