#include "model/chat/unicode.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kvern::chat::unicode {
namespace {

/// FNV-1a, to compare whole tables with Python's by one number.
class digest {
 public:
  void add(std::string_view s) {
    for (const char c : s) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  }
  std::uint64_t value = 0xcbf29ce484222325ull;
};

template <class F>
std::uint64_t over_all(F&& f) {
  digest d;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c < 0xD800 || c >= 0xE000) d.add(f(c));
  }
  return d.value;
}

std::uint64_t mapped(mapping m) {
  return over_all([m](char32_t c) {
    std::string out;
    append_mapped(out, c, m);
    return out;
  });
}

std::uint64_t with(std::uint32_t bits) {
  return over_all([bits](char32_t c) { return std::string(1, has(c, bits) ? '\1' : '\0'); });
}

/// The numbers are of str.upper, str.isalpha and so on of Python 3.11 for every code point.
TEST(unicode, tables_are_those_of_python) {
  EXPECT_EQ(mapped(mapping::upper), 0xF1A6102C65729830ull);
  EXPECT_EQ(mapped(mapping::lower), 0xC319D02E8283B91Eull);
  EXPECT_EQ(mapped(mapping::title), 0x5553B8BE0B3CBF35ull);
  EXPECT_EQ(with(alpha), 0x4ED4E0FED479EAB9ull);
  EXPECT_EQ(with(lower), 0xE5A49EF797D1560ull);
  EXPECT_EQ(with(upper), 0x2BE58002D0ED51A4ull);
  EXPECT_EQ(with(decimal), 0xA391A4F4115F88E9ull);
  EXPECT_EQ(with(digit), 0xCC9C4363D4A5DA5ull);
  EXPECT_EQ(with(numeric), 0xF9EDF4AB6AA9F8D1ull);
  EXPECT_EQ(with(space), 0x7BB07F364B66B908ull);
  EXPECT_EQ(with(printable), 0x149EA8F30823F59ull);
}

TEST(unicode, decodes_only_what_is_well_formed) {
  EXPECT_EQ(decode("\xC3\xA9", 0).value, 0xE9u);
  EXPECT_EQ(decode("\xF0\x9F\x98\x80", 0).value, 0x1F600u);
  // Overlong, surrogate, beyond the last, cut off, a stray continuation.
  for (const std::string_view bad : {"\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82", "\x80"}) {
    EXPECT_FALSE(decode(bad, 0).well_formed);
    EXPECT_EQ(decode(bad, 0).size, 1);
    EXPECT_EQ(length(bad), bad.size());
  }
}

TEST(unicode, every_string_can_be_walked_both_ways) {
  const std::string_view s = "a\xC3\xA9\xF0\x9F\x98\x80\xE2\x82z\x80\xC3";
  std::vector<std::size_t> forth;
  for (std::size_t i = 0; i < s.size(); i += decode(s, i).size) forth.push_back(i);
  std::vector<std::size_t> back;
  for (std::size_t i = s.size(); i > 0;) back.insert(back.begin(), i = before(s, i));
  EXPECT_EQ(forth, back);
  std::string copy;
  for (std::size_t i = 0; i < s.size(); i += decode(s, i).size) append(copy, decode(s, i).value);
  EXPECT_EQ(copy, s);
}

TEST(unicode, digits_of_every_script_have_values) {
  EXPECT_EQ(decimal_value('7'), 7);
  EXPECT_EQ(decimal_value(0x0663), 3);
  EXPECT_EQ(decimal_value(0x1D7FF), 9);
  EXPECT_EQ(decimal_value('a'), -1);
  EXPECT_EQ(decimal_value(0xB2), -1);
}

}  // namespace
}  // namespace kvern::chat::unicode
