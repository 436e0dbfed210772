#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvern::chat {

/// Unicode as Python's str sees it: properties and full case mapping per code point. Pure and thread-safe.
/// Strings are UTF-8; a byte that is no part of a well-formed sequence counts as a code point of its own, so every
/// string can be cut at every code point and nothing is lost.
namespace unicode {

/// Bits of `properties`.
enum property : std::uint32_t {
  alpha = 1u << 0,
  lower = 1u << 1,
  upper = 1u << 2,
  title = 1u << 3,
  decimal = 1u << 4,
  digit = 1u << 5,
  numeric = 1u << 6,
  space = 1u << 7,
  printable = 1u << 8,
  cased = 1u << 9,
  ignorable = 1u << 10,
};

struct code_point {
  char32_t value = 0;     ///< the code point, or 0x110000 + the byte where `well_formed` is false
  std::uint8_t size = 1;  ///< bytes
  bool well_formed = true;
};

/// The code point at `offset` (less than `s.size()`).
code_point decode(std::string_view s, std::size_t offset);

/// The offset of the code point that ends before `offset` (greater than 0).
std::size_t before(std::string_view s, std::size_t offset);

/// Number of code points.
std::size_t length(std::string_view s);

bool ascii(std::string_view s);

/// Property bits of a code point; 0 for what `decode` found ill-formed.
std::uint32_t properties(char32_t c);

inline bool has(char32_t c, std::uint32_t bits) { return (properties(c) & bits) != 0; }

/// Value of a decimal digit of any script, or -1.
int decimal_value(char32_t c);

void append(std::string& out, char32_t c);

enum class mapping { lower, upper, title };

/// Appends what `c` maps to (up to three code points). The final sigma is the caller's: see `lower_at`.
void append_mapped(std::string& out, char32_t c, mapping m);

/// Appends the lower case of the code point at `offset` of `s`, with the rule of the final sigma.
void append_lower_at(std::string& out, std::string_view s, std::size_t offset, code_point c);

}  // namespace unicode
}  // namespace kvern::chat
