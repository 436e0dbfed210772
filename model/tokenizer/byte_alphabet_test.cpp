#include "model/tokenizer/byte_alphabet.hpp"

#include <gtest/gtest.h>

#include <set>

namespace kvern {
namespace {

TEST(byte_alphabet, has_a_character_of_its_own_for_each_byte) {
  std::set<std::string_view> seen;
  std::string bytes;
  for (unsigned byte = 0; byte < 256; ++byte) {
    seen.insert(byte_character(static_cast<std::uint8_t>(byte)));
    bytes += static_cast<char>(byte);
  }
  EXPECT_EQ(seen.size(), 256U);
  std::string characters;
  append_characters(bytes, characters);
  std::string back;
  append_bytes(characters, back);
  EXPECT_EQ(back, bytes);
}

TEST(byte_alphabet, is_that_of_gpt2) {
  EXPECT_EQ(byte_character('A'), "A");
  EXPECT_EQ(byte_character(' '), "\u0120");
  EXPECT_EQ(byte_character('\n'), "\u010A");
  EXPECT_EQ(byte_character(0x00), "\u0100");
  EXPECT_EQ(byte_character(0x7F), "\u0121");
  EXPECT_EQ(byte_character(0xA0), "\u0142");
  EXPECT_EQ(byte_character(0xAD), "\u0143");
  EXPECT_EQ(byte_character(0xFF), "\u00FF");
}

TEST(byte_alphabet, leaves_other_characters_as_they_are) {
  std::string out;
  append_bytes("a \u20AC\xFF\u0120", out);
  EXPECT_EQ(out, "a \u20AC\xFF ");
}

}  // namespace
}  // namespace kvern
