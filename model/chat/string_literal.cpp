#include "model/chat/string_literal.hpp"

#include <cstdint>

#include "model/chat/unicode.hpp"

namespace kvern::chat {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char low = static_cast<char>(c | 0x20);
  return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

/// Reads exactly `n` hexadecimal digits at `at`; -1 when they are not there.
std::int64_t read_hex(std::string_view s, std::size_t at, std::size_t n) {
  if (s.size() - at < n) return -1;
  std::int64_t v = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const int h = hex_value(s[at + i]);
    if (h < 0) return -1;
    v = v * 16 + h;
  }
  return v;
}

}  // namespace

std::expected<std::string, std::string> unescape(std::string_view inside) {
  std::string out;
  out.reserve(inside.size());
  for (std::size_t i = 0; i < inside.size(); ++i) {
    if (inside[i] != '\\') {
      out.push_back(inside[i]);
      continue;
    }
    if (++i == inside.size()) return std::unexpected("a string ends in a backslash");
    const char c = inside[i];
    switch (c) {
      case '\n':
        break;
      case '\\':
      case '\'':
      case '"':
        out.push_back(c);
        break;
      case 'a':
        out.push_back('\a');
        break;
      case 'b':
        out.push_back('\b');
        break;
      case 'f':
        out.push_back('\f');
        break;
      case 'n':
        out.push_back('\n');
        break;
      case 'r':
        out.push_back('\r');
        break;
      case 't':
        out.push_back('\t');
        break;
      case 'v':
        out.push_back('\v');
        break;
      case 'x':
      case 'u':
      case 'U': {
        const std::size_t n = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        const std::int64_t v = read_hex(inside, i + 1, n);
        if (v < 0) return std::unexpected("a string holds a cut-off \\x, \\u or \\U escape");
        if (v > 0x10FFFF || (v >= 0xD800 && v < 0xE000)) {
          return std::unexpected("a string's \\u or \\U escape is no code point");
        }
        unicode::append(out, static_cast<char32_t>(v));
        i += n;
        break;
      }
      case 'N':
        return std::unexpected("\\N{...} escapes are not supported; write the character itself");
      default:
        if (c >= '0' && c <= '7') {
          std::uint32_t v = 0;
          std::size_t n = 0;
          for (; n < 3 && i + n < inside.size() && inside[i + n] >= '0' && inside[i + n] <= '7'; ++n) {
            v = v * 8 + static_cast<std::uint32_t>(inside[i + n] - '0');
          }
          unicode::append(out, v);
          i += n - 1;
        } else {
          out.push_back('\\');
          out.push_back(c);
        }
    }
  }
  return out;
}

}  // namespace kvern::chat
