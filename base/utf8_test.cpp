#include "base/utf8.hpp"

#include <gtest/gtest.h>

#include <string>

namespace kvern {
namespace {

std::string encoded(char32_t point) {
  std::string out;
  if (point < 0x80) {
    out += static_cast<char>(point);
  } else if (point < 0x800) {
    out += static_cast<char>(0xC0 | (point >> 6));
    out += static_cast<char>(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    out += static_cast<char>(0xE0 | (point >> 12));
    out += static_cast<char>(0x80 | ((point >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (point & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (point >> 18));
    out += static_cast<char>(0x80 | ((point >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((point >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (point & 0x3F));
  }
  return out;
}

TEST(utf8, takes_every_character_and_no_surrogate) {
  for (char32_t point = 0; point < 0x110000; ++point) {
    const std::string text = encoded(point);
    const utf8_step step = utf8_next(text);
    if (point >= 0xD800 && point < 0xE000) {
      ASSERT_EQ(step.state, utf8_state::invalid);
      ASSERT_EQ(step.length, 1U);
      continue;
    }
    ASSERT_EQ(step.state, utf8_state::valid) << std::hex << static_cast<unsigned>(point);
    ASSERT_EQ(step.length, text.size());
    ASSERT_EQ(utf8_code_point(text), point);
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      const utf8_step part = utf8_next(std::string_view(text).substr(0, cut));
      ASSERT_EQ(part.state, utf8_state::incomplete);
      ASSERT_EQ(part.length, cut);
    }
  }
}

TEST(utf8, refuses_what_cannot_be_a_character) {
  struct example {
    std::string_view bytes;
    std::size_t length;
  };
  // The lengths are those of Unicode's rule of maximal subparts (chapter 3, table 3-8 to 3-11).
  for (const auto& [bytes, length] : {example{"\x80", 1},
                                      {"\xC0\xAF", 1},
                                      {"\xC1\xBF", 1},
                                      {"\xE0\x80\xAF", 1},
                                      {"\xED\xA0\x80", 1},
                                      {"\xE1\x80\xE2", 2},
                                      {"\xF0\x80\x80\x80", 1},
                                      {"\xF1\x80\x80\x41", 3},
                                      {"\xF4\x91\x92\x93", 1},
                                      {"\xF5\x80", 1},
                                      {"\xFF", 1}}) {
    const utf8_step step = utf8_next(bytes);
    EXPECT_EQ(step.state, utf8_state::invalid);
    EXPECT_EQ(step.length, length);
  }
}

TEST(utf8, measures_the_valid_front) {
  EXPECT_EQ(utf8_valid_prefix(""), 0U);
  EXPECT_EQ(utf8_valid_prefix("a\u00E9\u20AC\U0001F600"), 10U);
  EXPECT_EQ(utf8_valid_prefix("ab\xFFzz"), 2U);
  EXPECT_EQ(utf8_valid_prefix("ab\xE2\x82"), 2U);
}

TEST(utf8, tells_well_formed_text) {
  EXPECT_TRUE(utf8_valid(""));
  EXPECT_TRUE(utf8_valid(std::string_view("a\0b", 3)));
  EXPECT_TRUE(utf8_valid("gr\u00FC\u00DF \u20AC \U0001F638"));
  EXPECT_TRUE(utf8_valid("\xF4\x8F\xBF\xBF"));   // U+10FFFF
  EXPECT_FALSE(utf8_valid("\xF4\x90\x80\x80"));  // above it
  EXPECT_FALSE(utf8_valid("\xED\xA0\x80"));      // a surrogate
  EXPECT_FALSE(utf8_valid("\xC0\x80"));          // overlong
  EXPECT_FALSE(utf8_valid("\x80"));
  EXPECT_FALSE(utf8_valid("\xF0\x9F\x98"));
}

TEST(utf8, finds_a_character_that_is_still_to_be_completed) {
  EXPECT_EQ(utf8_incomplete_tail(""), 0U);
  EXPECT_EQ(utf8_incomplete_tail("abc"), 0U);
  EXPECT_EQ(utf8_incomplete_tail("a\xC3"), 1U);
  EXPECT_EQ(utf8_incomplete_tail("a\xC3\xA9"), 0U);
  EXPECT_EQ(utf8_incomplete_tail("\xF0\x9F\x98"), 3U);
  EXPECT_EQ(utf8_incomplete_tail("\xF0\x9F"), 2U);
  EXPECT_EQ(utf8_incomplete_tail("\xF0\x9F\x98\x80"), 0U);
}

TEST(utf8, takes_no_tail_that_cannot_be_completed) {
  EXPECT_EQ(utf8_incomplete_tail("\x80"), 0U);
  EXPECT_EQ(utf8_incomplete_tail("\xC0"), 0U);
  EXPECT_EQ(utf8_incomplete_tail("\xFF"), 0U);
  EXPECT_EQ(utf8_incomplete_tail("\xED\xA0"), 0U);  // a surrogate
  EXPECT_EQ(utf8_incomplete_tail("\xE0\x80"), 0U);  // overlong
  EXPECT_EQ(utf8_incomplete_tail("\xF4\x90"), 0U);  // beyond U+10FFFF
  EXPECT_EQ(utf8_incomplete_tail("\x80\x80\x80\x80"), 0U);
}

TEST(utf8, replaces_what_is_no_character) {
  EXPECT_EQ(utf8_repaired("caf\u00E9 \U0001F600"), "caf\u00E9 \U0001F600");
  EXPECT_EQ(utf8_repaired("a\xFF"
                          "b"),
            "a\uFFFD"
            "b");
  EXPECT_EQ(utf8_repaired("\xF0\x9F\x98"), "\uFFFD");
  EXPECT_EQ(utf8_repaired("\xF0\x9F\x98z"), "\uFFFDz");
  EXPECT_EQ(utf8_repaired("\u20AC\x80"), "\u20AC\uFFFD");
  EXPECT_EQ(utf8_repaired("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_TRUE(utf8_valid(utf8_repaired("\xED\xA0\x80\xC0\xFF")));
}

TEST(utf8, counts_characters) {
  EXPECT_EQ(utf8_length(""), 0U);
  EXPECT_EQ(utf8_length("a\u00FC\U0001F638"), 3U);
  // A character in two parts counts once.
  EXPECT_EQ(utf8_length("\xF0\x9F") + utf8_length("\x98\xB8"), 1U);
}

}  // namespace
}  // namespace kvern
