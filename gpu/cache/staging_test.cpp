#include "gpu/cache/staging.hpp"

#include <gtest/gtest.h>

namespace kvern::gpu {
namespace {

constexpr cache_shape shape{.layers = 3, .kv_heads = 2, .head_dim = 4, .type = line_type::f32};

TEST(staging, stacked_rows_are_contiguous_with_all_their_layers) {
  auto staged = staging::create(shape, 7);
  ASSERT_TRUE(staged);
  EXPECT_EQ(staged->max_rows(), 7);
  const std::byte* base = staged->lines(0, 0, line_part::k).base;
  for (int row = 0; row < 7; ++row)
    for (int layer = 0; layer < 3; ++layer)
      for (int part = 0; part < 2; ++part)
        EXPECT_EQ(staged->lines(0, layer, static_cast<line_part>(part)).line(row) - base,
                  ((row * 3 + layer) * 2 + part) * 2 * 4 * 4);
}

TEST(staging, else_a_layer_has_its_own_rows_and_a_shard_its_own_heads) {
  auto staged = staging::create(shape, 7, {.stacked = false, .shards = 2});
  ASSERT_TRUE(staged);
  for (int shard = 0; shard < 2; ++shard) {
    EXPECT_EQ(staged->heads(shard), (head_range{shard, 1}));
    for (int layer = 0; layer < 3; ++layer) {
      const std::byte* base = staged->lines(shard, layer, line_part::k).base;
      for (int row = 0; row < 7; ++row)
        for (int part = 0; part < 2; ++part)
          EXPECT_EQ(staged->lines(shard, layer, static_cast<line_part>(part)).line(row) - base,
                    (row * 2 + part) * 4 * 4);
    }
  }
}

TEST(staging, impossible_sizes_are_errors) {
  EXPECT_EQ(staging::create(shape, 0).error().code, "out_of_memory");
  EXPECT_EQ(staging::create(shape, -1).error().code, "out_of_memory");
  EXPECT_EQ(staging::create(cache_shape{}, 1).error().code, "invalid_cache_shape");
  EXPECT_EQ(staging::create(shape, 1, {.shards = 3}).error().code, "invalid_cache_options");
}

}  // namespace
}  // namespace kvern::gpu
