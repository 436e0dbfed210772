#include "model/gguf/quoted_name.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

namespace kvern {
namespace {

TEST(quoted_name, keeps_printable_ascii) { EXPECT_EQ(quoted_name("blk.0.attn_q.weight"), "'blk.0.attn_q.weight'"); }

TEST(quoted_name, writes_other_bytes_in_hex) {
  EXPECT_EQ(quoted_name(std::string_view("a\n\0\x7f\xc3", 5)), R"('a\x0A\x00\x7F\xC3')");
}

TEST(quoted_name, cuts_what_is_long) {
  EXPECT_EQ(quoted_name(std::string(100, 'x')), fmt::format("'{:x<100}'", ""));
  EXPECT_EQ(quoted_name(std::string(101, 'x')), fmt::format("'{:x<100}...'", ""));
}

}  // namespace
}  // namespace kvern
