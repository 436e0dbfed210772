#include "model/chat/unicode.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>

#include "model/chat/unicode_tables.hpp"

namespace kvern::chat::unicode {
namespace {

constexpr char32_t capital_sigma = 0x3A3;

bool continuation(unsigned char b) { return (b & 0xC0u) == 0x80u; }

std::uint32_t map_simple(std::span<const tables::case_range> ranges, std::uint32_t c) {
  const auto* it = std::upper_bound(ranges.data(), ranges.data() + ranges.size(), c,
                                    [](std::uint32_t x, const tables::case_range& r) { return x < r.first; });
  // Ranges of stride 2 interleave by at most one neighbour, so the two before the bound suffice.
  for (int back = 0; back < 2 && it != ranges.data(); ++back) {
    --it;
    if (c <= it->last && (c - it->first) % it->stride == 0) {
      return static_cast<std::uint32_t>(static_cast<std::int64_t>(c) + it->delta);
    }
  }
  return c;
}

const tables::case_special* find_special(std::span<const tables::case_special> specials, std::uint32_t c) {
  const auto it = std::lower_bound(specials.begin(), specials.end(), c,
                                   [](const tables::case_special& s, std::uint32_t x) { return s.from < x; });
  return it != specials.end() && it->from == c ? &*it : nullptr;
}

bool cased_before(std::string_view s, std::size_t offset) {
  while (offset > 0) {
    offset = before(s, offset);
    const std::uint32_t p = properties(decode(s, offset).value);
    if ((p & ignorable) == 0) return (p & cased) != 0;
  }
  return false;
}

bool cased_after(std::string_view s, std::size_t offset) {
  while (offset < s.size()) {
    const code_point c = decode(s, offset);
    const std::uint32_t p = properties(c.value);
    if ((p & ignorable) == 0) return (p & cased) != 0;
    offset += c.size;
  }
  return false;
}

}  // namespace

code_point decode(std::string_view s, std::size_t offset) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(s[offset + i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const code_point bad{static_cast<char32_t>(0x110000u + lead), 1, false};
  const std::size_t left = s.size() - offset;
  if (lead >= 0xC2 && lead < 0xE0) {
    if (left < 2 || !continuation(byte(1))) return bad;
    return {static_cast<char32_t>((lead & 0x1Fu) << 6 | (byte(1) & 0x3Fu)), 2, true};
  }
  if (lead >= 0xE0 && lead < 0xF0) {
    if (left < 3 || !continuation(byte(1)) || !continuation(byte(2))) return bad;
    const auto c = static_cast<char32_t>((lead & 0x0Fu) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu));
    if (c < 0x800 || (c >= 0xD800 && c < 0xE000)) return bad;
    return {c, 3, true};
  }
  if (lead >= 0xF0 && lead < 0xF5) {
    if (left < 4 || !continuation(byte(1)) || !continuation(byte(2)) || !continuation(byte(3))) return bad;
    const auto c = static_cast<char32_t>((lead & 0x07u) << 18 | (byte(1) & 0x3Fu) << 12 | (byte(2) & 0x3Fu) << 6 |
                                         (byte(3) & 0x3Fu));
    if (c < 0x10000 || c > 0x10FFFF) return bad;
    return {c, 4, true};
  }
  return bad;
}

std::size_t before(std::string_view s, std::size_t offset) {
  for (std::size_t back = 1; back <= 4 && back <= offset; ++back) {
    if (continuation(static_cast<unsigned char>(s[offset - back]))) continue;
    if (decode(s, offset - back).size == back) return offset - back;
    break;
  }
  return offset - 1;
}

bool ascii(std::string_view s) {
  std::size_t i = 0;
  for (; i + 8 <= s.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, s.data() + i, 8);
    if ((word & 0x8080808080808080ull) != 0) return false;
  }
  for (; i < s.size(); ++i) {
    if (static_cast<unsigned char>(s[i]) >= 0x80) return false;
  }
  return true;
}

std::size_t length(std::string_view s) {
  if (ascii(s)) return s.size();
  std::size_t n = 0;
  for (std::size_t i = 0; i < s.size(); i += decode(s, i).size) ++n;
  return n;
}

std::uint32_t properties(char32_t c) {
  if (c > 0x10FFFF) return 0;
  const std::uint32_t key = static_cast<std::uint32_t>(c) << 11 | 0x7FFu;
  const auto* it = std::upper_bound(std::begin(tables::properties), std::end(tables::properties), key);
  return *(it - 1) & 0x7FFu;
}

int decimal_value(char32_t c) {
  if (c < 128) return c >= '0' && c <= '9' ? static_cast<int>(c - '0') : -1;
  const auto* it = std::upper_bound(std::begin(tables::decimal_zeros), std::end(tables::decimal_zeros), c);
  if (it == std::begin(tables::decimal_zeros)) return -1;
  const auto off = static_cast<std::uint32_t>(c) - *(it - 1);
  return off < 10 ? static_cast<int>(off) : -1;
}

void append(std::string& out, char32_t c) {
  if (c >= 0x110000) {
    out.push_back(static_cast<char>(c - 0x110000));
  } else if (c < 0x80) {
    out.push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out.push_back(static_cast<char>(0xC0u | c >> 6));
    out.push_back(static_cast<char>(0x80u | (c & 0x3Fu)));
  } else if (c < 0x10000) {
    out.push_back(static_cast<char>(0xE0u | c >> 12));
    out.push_back(static_cast<char>(0x80u | (c >> 6 & 0x3Fu)));
    out.push_back(static_cast<char>(0x80u | (c & 0x3Fu)));
  } else {
    out.push_back(static_cast<char>(0xF0u | c >> 18));
    out.push_back(static_cast<char>(0x80u | (c >> 12 & 0x3Fu)));
    out.push_back(static_cast<char>(0x80u | (c >> 6 & 0x3Fu)));
    out.push_back(static_cast<char>(0x80u | (c & 0x3Fu)));
  }
}

void append_mapped(std::string& out, char32_t c, mapping m) {
  if (c < 128) {
    const bool is_lower = c >= 'a' && c <= 'z';
    const bool is_upper = c >= 'A' && c <= 'Z';
    if (is_lower && m != mapping::lower) c -= 32;
    if (is_upper && m == mapping::lower) c += 32;
    out.push_back(static_cast<char>(c));
    return;
  }
  std::span<const tables::case_range> ranges = tables::lower_ranges;
  std::span<const tables::case_special> specials = tables::lower_specials;
  if (m == mapping::upper) {
    ranges = tables::upper_ranges;
    specials = tables::upper_specials;
  } else if (m == mapping::title) {
    ranges = tables::title_ranges;
    specials = tables::title_specials;
  }
  if (const auto* special = find_special(specials, c)) {
    for (const std::uint32_t to : special->to) {
      if (to != 0) append(out, to);
    }
    return;
  }
  append(out, map_simple(ranges, c));
}

void append_lower_at(std::string& out, std::string_view s, std::size_t offset, code_point c) {
  if (c.value == capital_sigma && cased_before(s, offset) && !cased_after(s, offset + c.size)) {
    append(out, 0x3C2);
    return;
  }
  append_mapped(out, c.value, mapping::lower);
}

}  // namespace kvern::chat::unicode
