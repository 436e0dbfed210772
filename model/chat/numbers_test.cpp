#include "model/chat/numbers.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "model/chat/print.hpp"

namespace kvern::chat {
namespace {

TEST(numbers, integers_are_read_as_python_reads_them) {
  const auto is = [](std::string_view s, int base, int v) {
    const auto got = parse_integer(s, base);
    ASSERT_TRUE(got) << s;
    EXPECT_EQ(integer_repr(*got), std::to_string(v)) << s;
  };
  is(" 12 ", 10, 12);
  is("-1_000", 10, -1000);
  is("0x_1f", 16, 31);
  is("0b11", 0, 3);
  is("z", 36, 35);
  is("١٢", 10, 12);
  is("00", 0, 0);
  for (const std::string_view s : {"", "-", "1__0", "_1", "1_", "0x1f", "1.0", "1 2", "a"}) {
    EXPECT_FALSE(parse_integer(s, 10)) << s;
  }
  EXPECT_FALSE(parse_integer("010", 0));
  EXPECT_FALSE(parse_integer("1", 99));
  EXPECT_FALSE(parse_integer("1", 1));
  EXPECT_THROW(parse_integer(std::string(60, '9'), 10), template_failure);
}

TEST(numbers, reals_are_read_as_python_reads_them) {
  EXPECT_EQ(parse_real("1_0.5"), 10.5);
  EXPECT_EQ(parse_real(" +2e3 "), 2000.0);
  EXPECT_TRUE(std::isinf(*parse_real("-Infinity")));
  EXPECT_TRUE(std::isnan(*parse_real("nan")));
  EXPECT_TRUE(std::isinf(*parse_real("1e999")));
  for (const std::string_view s : {"", "+", "+-1", "1_.5", "0x1p3", "nan(1)", "1e", "--1"}) {
    EXPECT_FALSE(parse_real(s)) << s;
  }
}

TEST(numbers, rounding_is_half_even_on_the_exact_value) {
  EXPECT_EQ(round_real(2.5, 0), 2.0);
  EXPECT_EQ(round_real(2.675, 2), 2.67);
  EXPECT_EQ(round_real(1250.0, -2), 1200.0);
  EXPECT_EQ(round_real(1e300, 400), 1e300);
  EXPECT_EQ(round_real(5.0, -400), 0.0);
  EXPECT_EQ(round_real(1.7976931348623157e308, 300), 1.7976931348623157e308);
}

}  // namespace
}  // namespace kvern::chat
