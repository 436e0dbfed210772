#include "model/tokenizer/escaped_space.hpp"

#include <gtest/gtest.h>

namespace kvern {
namespace {

TEST(escaped_space, goes_there_and_back) {
  std::string escaped = "x";
  append_escaped("  a b ", escaped);
  EXPECT_EQ(escaped, "x\u2581\u2581a\u2581b\u2581");
  std::string plain = "y";
  append_unescaped(escaped, plain);
  EXPECT_EQ(plain, "yx  a b ");
}

TEST(escaped_space, takes_a_whole_character_only) {
  std::string plain;
  append_unescaped("\xE2\x96\xE2\x96\x81\xE2", plain);
  EXPECT_EQ(plain, "\xE2\x96 \xE2");
}

}  // namespace
}  // namespace kvern
