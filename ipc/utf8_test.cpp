#include "ipc/utf8.hpp"

#include <gtest/gtest.h>

namespace kvern::ipc {
namespace {

TEST(utf8, tells_well_formed_text) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8(std::string_view("a\0b", 3)));
  EXPECT_TRUE(is_utf8("gr\xC3\xBC\xC3\x9F \xE2\x82\xAC \xF0\x9F\x98\xB8"));
  EXPECT_TRUE(is_utf8("\xF4\x8F\xBF\xBF"));   // U+10FFFF
  EXPECT_FALSE(is_utf8("\xF4\x90\x80\x80"));  // above it
  EXPECT_FALSE(is_utf8("\xED\xA0\x80"));      // a surrogate
  EXPECT_FALSE(is_utf8("\xC0\x80"));          // overlong
  EXPECT_FALSE(is_utf8("\xE0\x80\x80"));      // overlong
  EXPECT_FALSE(is_utf8("\xF0\x80\x80\x80"));  // overlong
  EXPECT_FALSE(is_utf8("\x80"));
  EXPECT_FALSE(is_utf8("\xF0\x9F\x98"));
  EXPECT_FALSE(is_utf8("\xFF"));
}

TEST(utf8, replaces_what_is_no_character) {
  EXPECT_EQ(to_utf8("plain"), "plain");
  EXPECT_EQ(to_utf8("a\xF0\x9F"
                    "b"),
            "a\xEF\xBF\xBD\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(to_utf8("\xE2\x82\xAC\x80"), "\xE2\x82\xAC\xEF\xBF\xBD");
  EXPECT_TRUE(is_utf8(to_utf8("\xED\xA0\x80\xC0\xFF")));
}

TEST(utf8, counts_code_points) {
  EXPECT_EQ(utf8_length(""), 0u);
  EXPECT_EQ(utf8_length("a\xC3\xBC\xF0\x9F\x98\xB8"), 3u);
}

}  // namespace
}  // namespace kvern::ipc
