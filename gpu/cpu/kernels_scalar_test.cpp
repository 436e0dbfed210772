#include <algorithm>
#include <bit>

#include "gpu/cpu/kernel_comparison.hpp"

namespace kvern::gpu::cpu {
namespace {

/// |approximation - exact| in units in the last place of the exact value's float.
double ulps(float approximation, double exact) {
  const float near = static_cast<float>(exact);
  const double unit =
      static_cast<double>(std::nextafter(std::fabs(near), INFINITY)) - static_cast<double>(std::fabs(near));
  return std::fabs(static_cast<double>(approximation) - exact) / unit;
}

TEST(kernels_scalar, exp_is_within_two_ulp) {
  std::vector<float> x;
  for (float v = -87.33F; v < 88.72F; v += 0.00137F) x.push_back(v);
  for (float v = 1e-30F; v < 1; v *= 1.7F) x.insert(x.end(), {v, -v});
  std::vector<float> out(x.size());
  scalar_kernels().exp(x.data(), out.data(), static_cast<std::int64_t>(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_LE(ulps(out[i], std::exp(static_cast<double>(x[i]))), 2) << x[i];
}

TEST(kernels_scalar, exp_at_the_ends_of_its_range) {
  const std::vector<float> x{0, -0.0F, -87.4F, -1e30F, -INFINITY, 88.8F, 1e30F, INFINITY, NAN};
  std::vector<float> out(x.size());
  scalar_kernels().exp(x.data(), out.data(), static_cast<std::int64_t>(x.size()));
  for (const std::size_t i : {0U, 1U}) EXPECT_EQ(out[i], 1.0F);
  for (const std::size_t i : {2U, 3U, 4U}) EXPECT_EQ(test::bits_of(out[i]), 0U);
  for (const std::size_t i : {5U, 6U, 7U}) EXPECT_EQ(out[i], INFINITY);
  EXPECT_TRUE(std::isnan(out[8]));
}

TEST(kernels_scalar, weights_of_attention_are_within_an_ulp) {
  std::vector<float> x;
  for (float v = -124.99F; v < 0; v += 0.00071F) x.push_back(v);
  for (float v = 1e-30F; v < 1; v *= 1.00003F) x.push_back(-v);
  std::vector<float> out(x.size());
  scalar_kernels().weigh(x.data(), out.data(), static_cast<std::int64_t>(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_LE(ulps(out[i], std::exp2(static_cast<double>(x[i]))), 1) << x[i];
}

TEST(kernels_scalar, weights_of_attention_at_the_ends_of_their_range) {
  const std::vector<float> x{0, -0.0F, -125, -126, -1e30F, -INFINITY, NAN, std::bit_cast<float>(~0U)};
  std::vector<float> out(x.size());
  scalar_kernels().weigh(x.data(), out.data(), static_cast<std::int64_t>(x.size()));
  for (const std::size_t i : {0U, 1U}) EXPECT_EQ(out[i], 1.0F);
  for (const std::size_t i : {2U, 3U, 4U, 5U}) EXPECT_EQ(out[i], 0x1p-125F);
  for (const std::size_t i : {6U, 7U}) EXPECT_TRUE(std::isnan(out[i]));
}

TEST(kernels_scalar, soft_cap_with_a_cap_of_one_is_tanh_within_four_ulp) {
  std::vector<float> x{0.625F, std::nextafter(0.625F, 0.0F)};
  for (float v = 0; v < 20; v += 0.00037F) x.push_back(v);
  for (float v = 1e-36F; v < 1; v *= 1.3F) x.push_back(v);
  const std::size_t positive = x.size();
  for (std::size_t i = 0; i < positive; ++i) x.push_back(-x[i]);
  std::vector<float> out(x.size());
  scalar_kernels().soft_cap(x.data(), 1, out.data(), static_cast<std::int64_t>(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_LE(ulps(out[i], std::tanh(static_cast<double>(x[i]))), 4) << x[i];
    ASSERT_LE(std::fabs(out[i]), 1);
  }
  for (std::size_t i = 0; i < positive; ++i) ASSERT_EQ(out[i], -out[positive + i]);
}

TEST(kernels_scalar, soft_cap_of_values_that_are_not_finite) {
  const std::vector<float> x{INFINITY, -INFINITY, NAN, 3e38F, -3e38F};
  std::vector<float> out(x.size());
  scalar_kernels().soft_cap(x.data(), 30, out.data(), 5);
  EXPECT_EQ(out[0], 30);
  EXPECT_EQ(out[1], -30);
  EXPECT_TRUE(std::isnan(out[2]));
  EXPECT_EQ(out[3], 30);
  EXPECT_EQ(out[4], -30);
}

TEST(kernels_scalar, half_conversion_is_exact_and_rounds_to_nearest_even) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  std::vector<float> wide(all.size());
  scalar_kernels().widen_half(all.data(), wide.data(), 65536);
  std::vector<std::uint16_t> back(all.size());
  scalar_kernels().narrow_half(wide.data(), back.data(), 65536);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const float exact = test::half_value(all[i]);
    if (std::isnan(exact)) {
      ASSERT_TRUE(std::isnan(wide[i]));
      ASSERT_TRUE(std::isnan(test::half_value(back[i])));
      continue;
    }
    ASSERT_EQ(test::bits_of(wide[i]), test::bits_of(exact));
    ASSERT_EQ(back[i], all[i]);
  }
  // Half way between neighbours the even one is taken, a hair to either side the nearer one.
  for (std::uint16_t h = 0; h < 0x7bff; ++h) {
    const float low = test::half_value(h), high = test::half_value(static_cast<std::uint16_t>(h + 1));
    const float middle = low + (high - low) / 2;
    const float x[3] = {std::nextafter(middle, 0.0F), middle, std::nextafter(middle, INFINITY)};
    std::uint16_t out[3];
    scalar_kernels().narrow_half(x, out, 3);
    ASSERT_EQ(out[0], h);
    ASSERT_EQ(out[1], h + (h & 1));
    ASSERT_EQ(out[2], h + 1);
  }
}

TEST(kernels_scalar, quantised_rows_are_within_half_a_step) {
  test::random_source random;
  SCOPED_TRACE(testing::Message() << "seed " << random.seed());
  for (const bool fine : {true, false}) {
    for (const int rows : {1, 2, 4, 8}) {
      const std::int64_t blocks = 5;
      const auto x = random.normal(static_cast<std::size_t>(rows * blocks * 32));
      const test::quantised_rows q(scalar_kernels(), x, 1, rows, blocks, fine);
      const int pieces = fine ? 16 : 8, levels = fine ? 16256 : 127;
      for (int r = 0; r < rows; ++r) {
        for (std::int64_t b = 0; b < blocks; ++b) {
          const float* const block = x.data() + (r * blocks + b) * 32;
          double peak = 0;
          for (int k = 0; k < 32; ++k) peak = std::max(peak, std::fabs(static_cast<double>(block[k])));
          const auto at = static_cast<std::size_t>(b * rows + r);
          EXPECT_FLOAT_EQ(q.scales[at], static_cast<float>(peak / levels));
          int sum = 0;
          for (int k = 0; k < 32; ++k) {
            const auto byte = static_cast<std::size_t>(((b * pieces + k / 4) * rows + r) * 4 + k % 4);
            const int high = q.quants[byte];
            const int value = fine ? 128 * high + q.quants[byte + static_cast<std::size_t>(8 * rows * 4)] : high;
            ASSERT_LE(std::abs(value), levels);
            if (fine) {
              ASSERT_LE(std::abs(high), 127);
              ASSERT_LE(std::abs(value - 128 * high), 64);
            }
            // Half a step, and what the rounding of scale and reciprocal adds: 2^-23 of 16256 steps.
            ASSERT_LE(std::fabs(block[k] / (peak / levels) - value), 0.5 + 0.004);
            sum += value;
          }
          EXPECT_EQ(q.sums[at], sum);
          EXPECT_EQ(q.scaled_sums[at], q.scales[at] * static_cast<float>(sum));
        }
      }
    }
  }
}

TEST(kernels_scalar, blocks_of_zeros_and_of_values_that_are_not_finite) {
  std::vector<float> x(4 * 32, 0.0F);
  x[32 + 3] = 1e-40F;
  x[64 + 5] = INFINITY;
  x[96 + 7] = NAN;
  for (const bool fine : {true, false}) {
    const test::quantised_rows q(scalar_kernels(), x, 1, 1, 4, fine);
    for (const std::int8_t byte : q.quants) EXPECT_EQ(byte, 0);
    EXPECT_EQ(q.scales[0], 0.0F);
    EXPECT_EQ(q.scales[1], 0.0F);
    EXPECT_TRUE(std::isnan(q.scales[2]));
    EXPECT_TRUE(std::isnan(q.scales[3]));
  }
}

}  // namespace
}  // namespace kvern::gpu::cpu
