#include "base/utf8.hpp"

#include <algorithm>

namespace kvern {
namespace {

/// What a first byte demands: the character's length (0: no character begins so) and the range of the second byte.
struct lead {
  std::size_t length;
  unsigned char low;
  unsigned char high;
};

lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

}  // namespace

utf8_step utf8_next(std::string_view text) {
  const lead first = lead_of(static_cast<unsigned char>(text[0]));
  if (first.length == 0) return {utf8_state::invalid, 1};
  for (std::size_t i = 1; i < first.length; ++i) {
    if (i == text.size()) return {utf8_state::incomplete, i};
    const auto byte = static_cast<unsigned char>(text[i]);
    const unsigned char low = i == 1 ? first.low : 0x80;
    const unsigned char high = i == 1 ? first.high : 0xBF;
    if (byte < low || byte > high) return {utf8_state::invalid, i};
  }
  return {utf8_state::valid, first.length};
}

char32_t utf8_code_point(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first;
  const unsigned mask = 0x7FU >> character.size();
  char32_t point = first & mask;
  for (const char c : character.substr(1)) point = (point << 6) | (static_cast<unsigned char>(c) & 0x3FU);
  return point;
}

std::size_t utf8_valid_prefix(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size()) {
    const utf8_step step = utf8_next(text.substr(end));
    if (step.state != utf8_state::valid) break;
    end += step.length;
  }
  return end;
}

bool utf8_valid(std::string_view text) { return utf8_valid_prefix(text) == text.size(); }

std::size_t utf8_incomplete_tail(std::string_view text) {
  const auto longest = std::min<std::size_t>(3, text.size());
  for (std::size_t tail = 1; tail <= longest; ++tail) {
    const auto last = text.substr(text.size() - tail);
    if (continues(last.front())) continue;
    return utf8_next(last).state == utf8_state::incomplete ? tail : 0;
  }
  return 0;
}

std::size_t utf8_length(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char byte) { return !continues(byte); }));
}

std::string utf8_repaired(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const utf8_step step = utf8_next(text);
    out += step.state == utf8_state::valid ? text.substr(0, step.length) : utf8_replacement;
    text.remove_prefix(step.length);
  }
  return out;
}

}  // namespace kvern
