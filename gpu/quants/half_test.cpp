#include "gpu/quants/half.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace kvern::gpu {
namespace {

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

/// A half's value from the definition: sign, exponent of bias 15, mantissa of 10 bits.
double defined_value(std::uint32_t half) {
  const double sign = (half & 0x8000) != 0 ? -1 : 1;
  const int exponent = static_cast<int>(half >> 10 & 31);
  const int mantissa = static_cast<int>(half & 0x3FF);
  if (exponent == 31) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25));
}

/// The compiler's own conversion, independent of this header.
std::uint16_t compiler_half(float value) { return std::bit_cast<std::uint16_t>(static_cast<_Float16>(value)); }

void expect_same_half(float value) {
  const std::uint16_t plain = detail::plain_f32_to_f16(value);
  EXPECT_EQ(plain, compiler_half(value)) << std::hexfloat << value;
  EXPECT_EQ(f32_to_f16(value), plain) << std::hexfloat << value;
}

TEST(half, every_half_has_its_defined_value) {
  for (std::uint32_t half = 0; half < 0x10000; ++half) {
    const float value = f16_to_f32(static_cast<std::uint16_t>(half));
    const double wanted = defined_value(half);
    if (std::isnan(wanted)) {
      EXPECT_TRUE(std::isnan(value)) << half;
      EXPECT_EQ(bits(value) & 0x400000U, 0x400000U) << "quiet, " << half;
    } else {
      EXPECT_EQ(static_cast<double>(value), wanted) << half;
      EXPECT_EQ(std::signbit(value), std::signbit(wanted)) << half;
    }
    EXPECT_EQ(bits(detail::plain_f16_to_f32(static_cast<std::uint16_t>(half))), bits(value));
  }
}

TEST(half, every_half_comes_back) {
  for (std::uint32_t half = 0; half < 0x10000; ++half) {
    const bool nan = (half & 0x7FFF) > 0x7C00;
    const std::uint32_t wanted = nan ? half | 0x200 : half;
    EXPECT_EQ(f32_to_f16(f16_to_f32(static_cast<std::uint16_t>(half))), wanted);
  }
}

TEST(half, rounds_to_nearest_even_at_every_midpoint) {
  for (std::uint32_t half = 0; half < 0x7C00; ++half) {
    const double below = defined_value(half);
    const double above = half == 0x7BFF ? 65536 : defined_value(half + 1);
    const auto middle = static_cast<float>((below + above) / 2);
    const std::uint32_t even = (half & 1) == 0 ? half : half + 1;
    ASSERT_EQ(f32_to_f16(middle), even) << half;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 0.F)), half);
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 1e9F)), half + 1);
    ASSERT_EQ(f32_to_f16(-middle), even | 0x8000);
  }
}

TEST(half, agrees_with_the_compiler) {
  constexpr std::uint32_t stride = 10007;
  for (std::uint64_t pattern = 0; pattern <= UINT32_MAX; pattern += stride) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(pattern));
    if (!std::isnan(value)) expect_same_half(value);
  }
  for (const float value : {0.F, -0.F, 65504.F, 65519.99F, 65520.F, 1e30F, -1e30F, 0x1p-24F, 0x1p-25F, 0x1.000002p-25F,
                            0x1p-14F, 0x1.ffcp-15F, 1e-40F, std::numeric_limits<float>::infinity()}) {
    expect_same_half(value);
  }
}

TEST(half, nan_stays_nan) {
  for (const std::uint32_t pattern : {0x7F800001U, 0x7FC00000U, 0x7FFFFFFFU, 0xFF800001U, 0xFFFFFFFFU}) {
    const auto nan = std::bit_cast<float>(pattern);
    const std::uint16_t half = f32_to_f16(nan);
    EXPECT_GT(half & 0x7FFF, 0x7C00) << pattern;
    EXPECT_EQ(half >> 15, pattern >> 31);
    EXPECT_GT(f32_to_bf16(nan) & 0x7FFF, 0x7F80) << pattern;
    EXPECT_EQ(f32_to_bf16(nan) >> 15, static_cast<int>(pattern >> 31));
  }
}

TEST(half, bf16_is_the_upper_half_rounded_to_even) {
  for (std::uint32_t brain = 0; brain < 0x7F80; ++brain) {
    const std::uint32_t whole = brain << 16;
    const auto half = static_cast<std::uint16_t>(brain);
    ASSERT_EQ(bits(bf16_to_f32(half)), whole);
    ASSERT_EQ(f32_to_bf16(bf16_to_f32(half)), brain);
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(whole | 0x7FFF)), brain);
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(whole | 0x8000)), brain + (brain & 1));
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(whole | 0x8001)), brain + 1);
    ASSERT_EQ(f32_to_bf16(-std::bit_cast<float>(whole | 0x8001)), (brain + 1) | 0x8000);
  }
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::infinity()), 0x7F80);
}

TEST(half, many_at_once_equal_one_by_one) {
  for (std::size_t size = 0; size < 40; ++size) {
    std::vector<float> values(size);
    for (std::size_t i = 0; i < size; ++i)
      values[i] = std::ldexp(1.2345F + static_cast<float>(i), static_cast<int>(i) - 25);
    std::vector<std::uint16_t> halves(size);
    std::vector<float> back(size);
    f32_to_f16(std::span<const float>(values), halves);
    f16_to_f32(std::span<const std::uint16_t>(halves), back);
    for (std::size_t i = 0; i < size; ++i) {
      EXPECT_EQ(halves[i], f32_to_f16(values[i]));
      EXPECT_EQ(back[i], f16_to_f32(halves[i]));
    }
    f32_to_bf16(std::span<const float>(values), halves);
    bf16_to_f32(std::span<const std::uint16_t>(halves), back);
    for (std::size_t i = 0; i < size; ++i) {
      EXPECT_EQ(halves[i], f32_to_bf16(values[i]));
      EXPECT_EQ(back[i], bf16_to_f32(halves[i]));
    }
  }
}

TEST(half, works_at_compile_time) {
  static_assert(f16_to_f32(0x3C00) == 1.F);
  static_assert(f16_to_f32(0x0001) == 0x1p-24F);
  static_assert(f32_to_f16(-2.F) == 0xC000);
  static_assert(f32_to_bf16(bf16_to_f32(0x4049)) == 0x4049);
}

}  // namespace
}  // namespace kvern::gpu
