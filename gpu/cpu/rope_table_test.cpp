#include "gpu/cpu/rope_table.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace kvern::gpu::cpu {
namespace {

// Half an ulp of a float below 2, and the double's own error.
constexpr double rounding = 6.1e-8;

TEST(rope_table, plain_angles_follow_the_definition) {
  const auto table = rope_table::create({.dims = 8, .base = 10000}, 100);
  ASSERT_TRUE(table);
  EXPECT_EQ(table->half(), 4);
  const double frequency[] = {1, 0.1, 0.01, 0.001};
  for (const int p : {0, 1, 17, 99})
    for (int i = 0; i < 4; ++i) {
      EXPECT_NEAR(table->angles(p)[i], std::cos(p * frequency[i]), rounding);
      EXPECT_NEAR(table->angles(p)[table->half() + i], std::sin(p * frequency[i]), rounding);
    }
}

TEST(rope_table, factors_divide_and_linear_scaling_divides_again) {
  const auto table = rope_table::create(
      {.dims = 4, .base = 100, .scaling = rope_scaling::linear, .factor = 8, .freq_factors = {1, 2.5F}}, 50);
  ASSERT_TRUE(table);
  EXPECT_NEAR(table->angles(40)[0], std::cos(40 / 8.0), rounding);
  EXPECT_NEAR(table->angles(40)[table->half() + 1], std::sin(40 * 0.1 / 2.5 / 8), rounding);
}

TEST(rope_table, yarn_leaves_fast_pairs_and_scales_slow_ones) {
  // 64 positions, base 10000, 32 dims: pairs below floor(32 ln(64 / (32 * 2 pi)) / (2 ln 10000)) < 0 -> 0, and from
  // ceil(32 ln(64 / 2 pi) / (2 ln 10000)) = ceil(4.03) = 5 on are scaled wholly.
  const auto table = rope_table::create(
      {.dims = 32, .base = 10000, .scaling = rope_scaling::yarn, .factor = 4, .original_context = 64}, 256);
  ASSERT_TRUE(table);
  const double magnitude = 1 + 0.1 * std::log(4.0);
  const int p = 200;
  for (int i = 0; i < 16; ++i) {
    const double ramp = std::min(1.0, i / 5.0);
    const double frequency = std::pow(10000.0, -i / 16.0) * (ramp / 4 + (1 - ramp));
    EXPECT_NEAR(table->angles(p)[i], magnitude * std::cos(p * frequency), rounding) << i;
    EXPECT_NEAR(table->angles(p)[table->half() + i], magnitude * std::sin(p * frequency), rounding) << i;
  }
}

TEST(rope_table, magnitude_multiplies_both) {
  const auto table = rope_table::create({.dims = 2, .magnitude = 1.5}, 10);
  ASSERT_TRUE(table);
  EXPECT_NEAR(table->angles(3)[0], 1.5 * std::cos(3.0), rounding);
  EXPECT_NEAR(table->angles(3)[table->half() + 0], 1.5 * std::sin(3.0), rounding);
}

TEST(rope_table, positions_beyond_the_table_have_the_bits_of_a_larger_one) {
  const rope_config config{
      .dims = 32, .base = 10000, .scaling = rope_scaling::yarn, .factor = 4, .original_context = 64};
  const auto small = rope_table::create(config, 3);
  const auto large = rope_table::create(config, 300);
  ASSERT_TRUE(small && large);
  EXPECT_EQ(small->context(), 3);
  std::vector<float> computed(32);
  for (std::int32_t position = 0; position < 300; ++position) {
    small->compute(position, computed.data());
    EXPECT_EQ(std::memcmp(computed.data(), large->angles(position), 32 * sizeof(float)), 0) << position;
  }
  small->compute((1 << 24) - 1, computed.data());
  const double magnitude = 1 + 0.1 * std::log(4.0);
  EXPECT_NEAR(computed[0], magnitude * std::cos(16777215.0), rounding);
}

TEST(rope_table, an_absurd_context_is_an_error) {
  // 2^31 positions of 2^20 floats are 2^53 bytes: more than an address space.
  EXPECT_EQ(rope_table::create({.dims = 1 << 20}, 2'147'483'647).error().code, "out_of_memory");
}

}  // namespace
}  // namespace kvern::gpu::cpu
