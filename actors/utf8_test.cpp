#include "actors/utf8.hpp"

#include <gtest/gtest.h>

namespace kvern::actors {
namespace {

TEST(utf8, a_character_that_is_still_to_be_completed) {
  EXPECT_EQ(incomplete_tail(""), 0u);
  EXPECT_EQ(incomplete_tail("abc"), 0u);
  EXPECT_EQ(incomplete_tail("a\xC3"), 1u);
  EXPECT_EQ(incomplete_tail("a\xC3\xA9"), 0u);
  EXPECT_EQ(incomplete_tail("\xF0\x9F\x98"), 3u);
  EXPECT_EQ(incomplete_tail("\xF0\x9F"), 2u);
  EXPECT_EQ(incomplete_tail("\xF0\x9F\x98\x80"), 0u);
}

TEST(utf8, bytes_that_cannot_be_completed_are_no_tail) {
  EXPECT_EQ(incomplete_tail("\x80"), 0u);
  EXPECT_EQ(incomplete_tail("\xC0"), 0u);
  EXPECT_EQ(incomplete_tail("\xFF"), 0u);
  EXPECT_EQ(incomplete_tail("\xED\xA0"), 0u);  // a surrogate
  EXPECT_EQ(incomplete_tail("\xE0\x80"), 0u);  // overlong
  EXPECT_EQ(incomplete_tail("\xF4\x90"), 0u);  // beyond U+10FFFF
  EXPECT_EQ(incomplete_tail("\x80\x80\x80\x80"), 0u);
}

TEST(utf8, invalid_parts_become_replacement_characters) {
  EXPECT_EQ(replace_invalid("caf\xC3\xA9 \xF0\x9F\x98\x80"), "caf\xC3\xA9 \xF0\x9F\x98\x80");
  EXPECT_EQ(replace_invalid("a\xFF"
                            "b"),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(replace_invalid("\xF0\x9F\x98"), "\xEF\xBF\xBD");
  EXPECT_EQ(replace_invalid("\xF0\x9F\x98z"), "\xEF\xBF\xBDz");
  EXPECT_EQ(replace_invalid("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}

}  // namespace
}  // namespace kvern::actors
