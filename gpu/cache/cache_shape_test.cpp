#include "gpu/cache/cache_shape.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace kvern::gpu {
namespace {

TEST(cache_shape, sizes_follow_from_the_counts) {
  const cache_shape f16{.layers = 30, .kv_heads = 3, .head_dim = 64, .type = line_type::f16};
  EXPECT_EQ(f16.part_elements(), 192);
  EXPECT_EQ(f16.part_bytes(), 384u);
  EXPECT_EQ(f16.line_bytes(), 384u * 2 * 30);
  EXPECT_EQ(f16.page_bytes(), 384u * 2 * 30 * 32);
  cache_shape f32 = f16;
  f32.type = line_type::f32;
  EXPECT_EQ(f32.page_bytes(), 2 * f16.page_bytes());
  EXPECT_TRUE(validate(f16));
}

TEST(cache_shape, counts_out_of_range_are_refused) {
  const cache_shape good{.layers = 2, .kv_heads = 2, .head_dim = 16, .type = line_type::f32};
  constexpr auto huge = std::numeric_limits<std::int32_t>::max();
  for (const std::int32_t bad : {0, -1, huge, std::numeric_limits<std::int32_t>::min()}) {
    for (auto member : {&cache_shape::layers, &cache_shape::kv_heads, &cache_shape::head_dim}) {
      cache_shape shape = good;
      shape.*member = bad;
      const auto checked = validate(shape);
      ASSERT_FALSE(checked);
      EXPECT_EQ(checked.error().code, "invalid_cache_shape");
    }
  }
}

TEST(cache_shape, the_largest_valid_shape_does_not_overflow) {
  const cache_shape largest{.layers = 1 << 14, .kv_heads = 64, .head_dim = 1 << 16, .type = line_type::f32};
  ASSERT_TRUE(validate(largest));
  EXPECT_EQ(largest.page_bytes(), std::uint64_t{1} << (24 + 1 + 14 + 5));
  cache_shape larger = largest;
  larger.kv_heads += 1;
  EXPECT_FALSE(validate(larger));
}

}  // namespace
}  // namespace kvern::gpu
