#include "gpu/cpu/line_format.hpp"

#include <algorithm>

#include "gpu/cpu/kernel_comparison.hpp"

namespace kvern::gpu::cpu {
namespace {

std::uint16_t word_at(const std::vector<std::byte>& part, std::int64_t byte) {
  std::uint16_t h;
  std::memcpy(&h, part.data() + byte, sizeof h);
  return h;
}

/// The f16 nearest to x >= 0, the even one of two, the largest finite one at most.
std::uint16_t nearest_half(float x) {
  std::uint16_t low = 0, high = 0x7bff;
  while (low < high) {  // the last one that is not above x
    const auto middle = static_cast<std::uint16_t>((low + high + 1) / 2);
    if (test::half_value(middle) <= x)
      low = middle;
    else
      high = static_cast<std::uint16_t>(middle - 1);
  }
  if (low == 0x7bff) return low;
  const double below = static_cast<double>(x) - test::half_value(low);
  const double above = static_cast<double>(test::half_value(static_cast<std::uint16_t>(low + 1))) - x;
  return static_cast<std::uint16_t>(below > above || (below == above && (low & 1) != 0) ? low + 1 : low);
}

/// Plain: values and then, from `format.scales_offset` on, scales.
std::vector<std::byte> int8_part(const line_format& format, const std::vector<float>& x, std::size_t bytes) {
  std::vector<std::byte> part(bytes, std::byte{0xee});
  const int dim = format.head_dim;
  const int rows = format.span == scale_span::line ? 1 : format.kv_heads;
  const int cols = format.span == scale_span::line ? format.kv_heads * dim : dim;
  const int span = format.span == scale_span::group ? 32 : cols;
  std::int64_t at = format.scales_offset;
  for (int row = 0; row < rows; ++row) {
    for (int begin = 0; begin < cols; begin += span) {
      float peak = 0;
      const int end = std::min(cols, begin + span);
      for (int i = begin; i < end; ++i) {
        const float size = std::fabs(x[static_cast<std::size_t>(row * cols + i)]);
        if (size > peak) peak = size;
      }
      const std::uint16_t scale = nearest_half(peak / 127);
      std::memcpy(part.data() + at, &scale, 2);
      at += 2;
      for (int i = begin; i < end; ++i) {
        const float value = x[static_cast<std::size_t>(row * cols + i)];
        double q = 0;
        if (scale != 0 && !std::isnan(value))
          q = std::clamp<double>(std::nearbyint(value / test::half_value(scale)), -127, 127);
        part[static_cast<std::size_t>(row * cols + i)] = static_cast<std::byte>(static_cast<std::int8_t>(q));
      }
    }
  }
  return part;
}

TEST(line_format, int8_equals_the_plain_reference) {
  test::random_source random;
  SCOPED_TRACE(testing::Message() << "seed " << random.seed());
  for (int round = 0; round < 300; ++round) {
    line_format format{line_type::int8, static_cast<scale_span>(round % 3), random.integer(1, 5),
                       random.integer(1, 140), 0};
    format.scales_offset = format.kv_heads * format.head_dim + random.integer(0, 3);
    const auto n = static_cast<std::size_t>(format.kv_heads * format.head_dim);
    std::vector<float> x = test::awkward(n, random, round % 4 == 3);
    if (round % 4 == 0) x = random.normal(n);
    if (round % 4 == 1) {
      // Half way between two integers, of a power of two as the scale.
      for (float& v : x) v = static_cast<float>(random.integer(-253, 253)) / 16;
      for (std::size_t i = 0; i < n; i += 32) x[i] = 127.0F / 8;
      for (std::size_t i = 0; i < n; i += static_cast<std::size_t>(format.head_dim)) x[i] = -127.0F / 8;
    }
    const std::size_t bytes = n * 4 + 16;
    const auto expected = int8_part(format, x, bytes);
    for (const isa i : test::available()) {
      std::vector<std::byte> part(bytes, std::byte{0xee});
      store_line(format, x.data(), part.data(), i);
      ASSERT_EQ(part, expected) << to_string(i) << " round " << round;
    }
  }
}

TEST(line_format, int8_of_extreme_values) {
  const auto store = [](const std::vector<float>& x) {
    const auto n = static_cast<std::int32_t>(x.size());
    std::vector<std::byte> part(x.size() + 2);
    store_line({line_type::int8, scale_span::line, 1, n, n}, x.data(), part.data(), best_isa());
    std::vector<int> q;
    for (std::size_t i = 0; i < x.size(); ++i) q.push_back(static_cast<std::int8_t>(part[i]));
    return std::pair{q, word_at(part, n)};
  };
  EXPECT_EQ(store({0, -0.0F, 0}), (std::pair{std::vector<int>{0, 0, 0}, std::uint16_t{0}}));
  EXPECT_EQ(store({1e-40F, -1e-40F}), (std::pair{std::vector<int>{0, 0}, std::uint16_t{0}}));
  EXPECT_EQ(store({NAN, NAN}), (std::pair{std::vector<int>{0, 0}, std::uint16_t{0}}));
  EXPECT_EQ(store({NAN, 127, -63.5F, 0.5F, 1.5F}),
            (std::pair{std::vector<int>{0, 127, -64, 0, 2}, std::uint16_t{0x3c00}}));
  EXPECT_EQ(store({INFINITY, -INFINITY, 65504.0F * 3, NAN, 1}),
            (std::pair{std::vector<int>{127, -127, 3, 0, 0}, std::uint16_t{0x7bff}}));
  EXPECT_EQ(store({3e38F, -3e38F, 1e30F}), (std::pair{std::vector<int>{127, -127, 127}, std::uint16_t{0x7bff}}));
}

TEST(line_format, bf16_rounds_to_nearest_even) {
  const auto expected = [](float x) -> std::uint16_t {
    const std::uint32_t b = test::bits_of(x), rest = b & 0xffff;
    const auto upper = static_cast<std::uint16_t>(b >> 16);
    if (std::isnan(x)) return static_cast<std::uint16_t>(upper | 0x40);
    return static_cast<std::uint16_t>(upper + (rest > 0x8000 || (rest == 0x8000 && (upper & 1) != 0) ? 1 : 0));
  };
  test::random_source random;
  SCOPED_TRACE(testing::Message() << "seed " << random.seed());
  std::vector<float> x = test::awkward(1000, random, true);
  for (const std::uint32_t low : {0U, 1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
    for (std::uint32_t high = 0; high < 0x10000; high += 7) x.push_back(std::bit_cast<float>(high << 16 | low));
  }
  const auto n = static_cast<std::int32_t>(x.size());
  for (const isa i : test::available()) {
    std::vector<std::byte> part(x.size() * 2);
    store_line({line_type::bf16, {}, 1, n, 0}, x.data(), part.data(), i);
    for (std::int32_t e = 0; e < n; ++e)
      ASSERT_EQ(word_at(part, 2 * e), expected(x[static_cast<std::size_t>(e)])) << x[static_cast<std::size_t>(e)];
  }
}

TEST(line_format, f32_and_f16_are_copied_and_rounded) {
  test::random_source random;
  SCOPED_TRACE(testing::Message() << "seed " << random.seed());
  const std::vector<float> x = test::awkward(3 * 19, random, true);
  std::vector<std::byte> part(x.size() * 4);
  std::vector<std::uint16_t> halves(x.size());
  scalar_kernels().narrow_half(x.data(), halves.data(), 3 * 19);
  for (const isa i : test::available()) {
    store_line({line_type::f32, {}, 3, 19, 0}, x.data(), part.data(), i);
    EXPECT_EQ(std::memcmp(part.data(), x.data(), part.size()), 0);
    store_line({line_type::f16, {}, 3, 19, 0}, x.data(), part.data(), i);
    for (std::size_t e = 0; e < x.size(); ++e) {
      const std::uint16_t h = word_at(part, static_cast<std::int64_t>(2 * e));
      if (std::isnan(x[e])) continue;
      ASSERT_EQ(h, halves[e]);
    }
  }
}

}  // namespace
}  // namespace kvern::gpu::cpu
