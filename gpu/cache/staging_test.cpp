#include "gpu/cache/staging.hpp"

#include <gtest/gtest.h>

namespace kvern::gpu {
namespace {

TEST(staging, rows_are_contiguous_with_all_their_layers) {
  const cache_shape shape{.layers = 3, .kv_heads = 2, .head_dim = 4, .type = line_type::f32};
  auto staged = staging::create(shape, 7);
  ASSERT_TRUE(staged);
  EXPECT_EQ(staged->max_rows(), 7);
  const std::byte* base = staged->lines(0, line_part::k).base;
  for (int row = 0; row < 7; ++row)
    for (int layer = 0; layer < 3; ++layer)
      for (int part = 0; part < 2; ++part)
        EXPECT_EQ(staged->lines(layer, static_cast<line_part>(part)).line(row) - base,
                  ((row * 3 + layer) * 2 + part) * 2 * 4 * 4);
}

TEST(staging, impossible_sizes_are_errors) {
  const cache_shape shape{.layers = 3, .kv_heads = 2, .head_dim = 4, .type = line_type::f32};
  EXPECT_EQ(staging::create(shape, 0).error().code, "out_of_memory");
  EXPECT_EQ(staging::create(shape, -1).error().code, "out_of_memory");
  EXPECT_EQ(staging::create(cache_shape{}, 1).error().code, "invalid_cache_shape");
}

}  // namespace
}  // namespace kvern::gpu
