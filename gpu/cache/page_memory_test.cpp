#include "gpu/cache/page_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace kvern::gpu {
namespace {

constexpr cache_shape small{.layers = 3, .kv_heads = 2, .head_dim = 4, .type = line_type::f16};

TEST(page_memory, runs_tile_the_allocation_in_order) {
  auto pages = page_memory::create(small, 5);
  ASSERT_TRUE(pages);
  EXPECT_EQ(pages->bytes(), 5 * small.page_bytes());
  const std::byte* next = pages->lines(0, line_part::k).base;
  for (std::int32_t layer = 0; layer < small.layers; ++layer)
    for (const line_part part : {line_part::k, line_part::v}) {
      const line_run run = pages->lines(layer, part);
      EXPECT_EQ(run.base, next);
      EXPECT_EQ(run.stride, 2 * 4 * 2);
      next = run.line(5 * page_lines);
    }
  EXPECT_EQ(next, pages->lines(0, line_part::k).base + pages->bytes());
}

TEST(page_memory, clear_zeroes_exactly_the_named_pages) {
  auto pages = page_memory::create(small, 4, {.noise_seed = 11});
  auto untouched = page_memory::create(small, 4, {.noise_seed = 11});
  ASSERT_TRUE(pages && untouched);
  ASSERT_TRUE(pages->clear(std::vector<page_id>{2, 0}));
  for (std::int32_t layer = 0; layer < small.layers; ++layer)
    for (const line_part part : {line_part::k, line_part::v})
      for (std::int32_t line = 0; line < 4 * page_lines; ++line) {
        const std::byte* now = pages->lines(layer, part).line(line);
        const std::byte* before = untouched->lines(layer, part).line(line);
        const bool cleared = line / page_lines == 0 || line / page_lines == 2;
        if (cleared)
          EXPECT_TRUE(std::all_of(now, now + 16, [](std::byte b) { return b == std::byte{0}; }));
        else
          EXPECT_TRUE(std::equal(now, now + 16, before));
      }
}

TEST(page_memory, a_page_out_of_range_clears_nothing) {
  auto pages = page_memory::create(small, 4, {.noise_seed = 5});
  auto untouched = page_memory::create(small, 4, {.noise_seed = 5});
  ASSERT_TRUE(pages && untouched);
  for (const page_id bad : {-1, 4, std::numeric_limits<page_id>::max(), std::numeric_limits<page_id>::min()}) {
    const auto cleared = pages->clear(std::vector<page_id>{1, bad});
    ASSERT_FALSE(cleared);
    EXPECT_EQ(cleared.error().code, "page_out_of_range");
  }
  const std::byte* base = pages->lines(0, line_part::k).base;
  EXPECT_TRUE(std::equal(base, base + pages->bytes(), untouched->lines(0, line_part::k).base));
}

TEST(page_memory, impossible_sizes_are_errors) {
  EXPECT_EQ(page_memory::create(small, 0).error().code, "out_of_memory");
  EXPECT_EQ(page_memory::create(small, -3).error().code, "out_of_memory");
  cache_shape none = small;
  none.layers = 0;
  EXPECT_EQ(page_memory::create(none, 4).error().code, "invalid_cache_shape");
  const cache_shape largest{.layers = 1 << 14, .kv_heads = 64, .head_dim = 1 << 16, .type = line_type::f32};
  EXPECT_EQ(page_memory::create(largest, std::numeric_limits<std::int32_t>::max()).error().code, "out_of_memory");
}

}  // namespace
}  // namespace kvern::gpu
