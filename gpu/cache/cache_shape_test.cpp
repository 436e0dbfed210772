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

TEST(cache_shape, scales_stand_behind_the_values_and_parts_are_padded) {
  struct {
    std::int32_t heads, dim;
    line_type type;
    scale_span scale;
    std::uint64_t values, offset;
    std::int64_t scales;
    std::uint64_t part;
  } const cases[] = {
      {3, 64, line_type::f32, scale_span::group, 768, 768, 0, 768},
      {3, 5, line_type::f16, scale_span::group, 30, 30, 0, 32},
      {3, 5, line_type::bf16, scale_span::line, 30, 30, 0, 32},
      {3, 64, line_type::int8, scale_span::group, 192, 192, 6, 204},
      {3, 64, line_type::int8, scale_span::head, 192, 192, 3, 200},
      {3, 64, line_type::int8, scale_span::line, 192, 192, 1, 196},
      {1, 33, line_type::int8, scale_span::group, 33, 34, 2, 40},
      {3, 1, line_type::int8, scale_span::head, 3, 4, 3, 12},
  };
  for (const auto& c : cases) {
    const cache_shape shape{.layers = 2, .kv_heads = c.heads, .head_dim = c.dim, .type = c.type, .scale = c.scale};
    EXPECT_EQ(shape.values_bytes(), c.values);
    EXPECT_EQ(shape.scales_offset(), c.offset);
    EXPECT_EQ(shape.scales(), c.scales);
    EXPECT_EQ(shape.part_bytes(), c.part);
    EXPECT_EQ(shape.line_bytes(), (c.values + 2 * static_cast<std::uint64_t>(c.scales)) * 2 * 2);
    EXPECT_EQ(shape.page_bytes(), shape.line_bytes() * 32);
    EXPECT_EQ(page_memory_bytes(shape, 1), c.part * 2 * 2 * 32);
  }
}

TEST(cache_shape, shards_take_all_heads_in_order_and_differ_by_at_most_one) {
  for (std::int32_t heads = 1; heads <= 20; ++heads)
    for (std::int32_t shards = 1; shards <= heads; ++shards) {
      const cache_shape whole{.layers = 3, .kv_heads = heads, .head_dim = 5, .type = line_type::int8};
      std::int32_t next = 0;
      std::uint64_t bytes = 0;
      for (std::int32_t s = 0; s < shards; ++s) {
        const head_range range = shard_heads(heads, shards, s);
        EXPECT_EQ(range.first, next);
        EXPECT_GE(range.count, heads / shards);
        EXPECT_LE(range.count, heads / shards + 1);
        next += range.count;
        const cache_shape part = shard_shape(whole, shards, s);
        EXPECT_EQ(part.kv_heads, range.count);
        bytes += part.part_bytes() * 2 * 3 * 32;
      }
      EXPECT_EQ(next, heads);
      EXPECT_EQ(page_memory_bytes(whole, shards), bytes);
    }
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
