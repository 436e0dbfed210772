#include "gpu/cache/page_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace kvern::gpu {
namespace {

using bytes = std::vector<std::byte>;

constexpr cache_shape small{.layers = 3, .kv_heads = 2, .head_dim = 4, .type = line_type::f16};

bytes random_bytes(std::size_t count, std::mt19937& random) {
  bytes all(count);
  for (std::byte& b : all) b = static_cast<std::byte>(random());
  return all;
}

bytes read(const page_memory& pages, page_id page, std::int32_t lines = page_lines) {
  bytes out(static_cast<std::size_t>(lines) * pages.shape().line_bytes());
  EXPECT_TRUE(pages.read(page, lines, out));
  return out;
}

/// Every byte of a line's parts that is not padding, of one shard.
bytes stored(const page_memory& pages, std::int32_t shard, std::int32_t layer, line_part part, std::int64_t line) {
  const std::byte* at = pages.lines(shard, layer, part).line(line);
  const cache_shape& shape = pages.shard(shard);
  bytes all(at, at + shape.values_bytes());
  all.insert(all.end(), at + shape.scales_offset(), at + shape.scales_offset() + shape.scales_bytes());
  return all;
}

TEST(page_memory, a_layers_keys_or_values_are_one_run_over_all_pages) {
  auto pages = page_memory::create(small, 5);
  ASSERT_TRUE(pages);
  EXPECT_EQ(pages->bytes(), 5 * small.page_bytes());
  const std::byte* next = pages->lines(0, 0, line_part::k).base;
  for (std::int32_t layer = 0; layer < small.layers; ++layer)
    for (const line_part part : {line_part::k, line_part::v}) {
      const line_run run = pages->lines(0, layer, part);
      EXPECT_EQ(run.base, next);
      EXPECT_EQ(run.stride, 2 * 4 * 2);
      next = run.line(5 * page_lines);
    }
}

struct elements {
  line_type type = line_type::f16;
  scale_span scale = scale_span::group;
};

void PrintTo(const elements& e, std::ostream* out) { *out << to_string(e.type) << ", " << to_string(e.scale); }

/// Odd and even sizes, stacked or not, in one shard or several.
class any_layout : public testing::TestWithParam<elements> {
 protected:
  template <class F>
  void each(F&& test) {
    const bool one_scale = GetParam().type == line_type::int8 && GetParam().scale == scale_span::line;
    for (const std::int32_t head_dim : {5, 33, 64})
      for (const bool stacked : {true, false})
        for (const std::int32_t shards : {1, 2, 3}) {
          if (one_scale && shards > 1) continue;
          SCOPED_TRACE(testing::Message()
                       << "heads of " << head_dim << ", stacked " << stacked << ", shards " << shards);
          shape_ = {
              .layers = 2, .kv_heads = 3, .head_dim = head_dim, .type = GetParam().type, .scale = GetParam().scale};
          how_ = {.stacked = stacked, .shards = shards};
          test();
        }
  }

  page_memory make(std::int32_t pages) {
    how_.noise_seed = random_();
    auto made = page_memory::create(shape_, pages, how_);
    EXPECT_TRUE(made);
    return std::move(*made);
  }

  const unsigned seed_ = std::random_device{}();
  testing::ScopedTrace trace_{__FILE__, __LINE__, testing::Message() << "seed " << seed_};
  std::mt19937 random_{seed_};
  cache_shape shape_;
  page_memory_options how_;
};

TEST_P(any_layout, what_is_written_is_read_and_nothing_else_changes) {
  each([&] {
    page_memory pages = make(4);
    for (const std::int32_t lines : {0, 1, 7, 32}) {
      const auto page = static_cast<page_id>(random_() % 4);
      std::vector<bytes> before;
      for (page_id p = 0; p < 4; ++p) before.push_back(read(pages, p));
      const bytes in = random_bytes(static_cast<std::size_t>(lines) * shape_.line_bytes(), random_);
      ASSERT_TRUE(pages.write(page, lines, in));
      EXPECT_EQ(read(pages, page, lines), in);
      for (page_id p = 0; p < 4; ++p) EXPECT_TRUE(p == page || read(pages, p) == before[static_cast<std::size_t>(p)]);
      // The lines behind those written, by way of the parts.
      page_memory restored = make(4);
      ASSERT_TRUE(restored.write(page, page_lines, before[static_cast<std::size_t>(page)]));
      for (std::int32_t s = 0; s < pages.shards(); ++s)
        for (std::int32_t layer = 0; layer < 2; ++layer)
          for (const line_part part : {line_part::k, line_part::v})
            for (std::int64_t n = lines; n < page_lines; ++n)
              EXPECT_EQ(stored(pages, s, layer, part, page * page_lines + n),
                        stored(restored, s, layer, part, page * page_lines + n));
    }
  });
}

/// The order that backend.hpp promises, written out value by value and scale by scale.
TEST_P(any_layout, the_order_read_is_that_of_one_whole_line) {
  each([&] {
    page_memory pages = make(2);
    constexpr std::int32_t lines = 3;
    const page_id page = 1;
    bytes expected;
    const auto append = [&](const std::byte* from, std::size_t count) {
      expected.insert(expected.end(), from, from + count);
    };
    const std::size_t head_bytes = shape_.values_bytes() / 3;
    const std::size_t scales_of_head = shape_.scale == scale_span::line ? 0 : shape_.scales_bytes() / 3;
    for (std::int32_t layer = 0; layer < shape_.layers; ++layer)
      for (const line_part part : {line_part::k, line_part::v}) {
        const auto for_heads = [&](auto&& visit) {
          for (std::int32_t n = 0; n < lines; ++n)
            for (std::int32_t head = 0; head < 3; ++head)
              for (std::int32_t s = 0; s < pages.shards(); ++s) {
                const head_range range = pages.heads(s);
                if (head < range.first || head >= range.first + range.count) continue;
                visit(pages.lines(s, layer, part).line(page * page_lines + n), s,
                      static_cast<std::size_t>(head - range.first));
              }
        };
        for_heads([&](const std::byte* line, std::int32_t, std::size_t head) {
          append(line + head * head_bytes, head_bytes);
        });
        for_heads([&](const std::byte* line, std::int32_t s, std::size_t head) {
          const std::byte* scales = line + pages.shard(s).scales_offset();
          append(scales + head * scales_of_head, scales_of_head);
          if (shape_.type == line_type::int8 && shape_.scale == scale_span::line && head == 0) append(scales, 2);
        });
      }
    EXPECT_EQ(read(pages, page, lines), expected);
  });
}

TEST_P(any_layout, lines_move_between_layouts_unchanged) {
  each([&] {
    page_memory pages = make(2);
    auto plain = page_memory::create(shape_, 2, {.noise_seed = random_()});
    ASSERT_TRUE(plain);
    const bytes content = read(pages, 1);
    ASSERT_TRUE(plain->write(0, page_lines, content));
    EXPECT_EQ(read(*plain, 0), content);
  });
}

TEST_P(any_layout, copies_and_zeros_reach_the_named_lines_alone) {
  each([&] {
    page_memory pages = make(5);
    std::vector<bytes> expected;
    for (page_id p = 0; p < 5; ++p) expected.push_back(read(pages, p));
    ASSERT_TRUE(pages.clear(std::vector<page_id>{2, 0}));
    for (const std::size_t p : {0, 2}) std::fill(expected[p].begin(), expected[p].end(), std::byte{0});
    ASSERT_TRUE(pages.copy(std::vector<page_copy>{{1, 3, 32}, {3, 4, 11}, {1, 1, 5}}));
    expected[3] = expected[1];
    for (page_id p = 0; p < 4; ++p) EXPECT_EQ(read(pages, p), expected[static_cast<std::size_t>(p)]);
    EXPECT_EQ(read(pages, 4, 11), read(pages, 1, 11));
    // Behind the copied lines page 4 is as it was: with them put back, all of it is.
    page_memory restored = make(1);
    ASSERT_TRUE(restored.write(0, page_lines, expected[4]));
    ASSERT_TRUE(pages.write(4, 11, read(restored, 0, 11)));
    EXPECT_EQ(read(pages, 4), expected[4]);
  });
}

TEST_P(any_layout, what_is_out_of_range_changes_nothing) {
  each([&] {
    page_memory pages = make(4);
    std::vector<bytes> before;
    for (page_id p = 0; p < 4; ++p) before.push_back(read(pages, p));
    const auto refused = [](const result<void>& done) { return !done && done.error().code == "page_out_of_range"; };
    const std::size_t line_bytes = shape_.line_bytes();
    bytes room(33 * line_bytes);
    const auto first = [&](std::size_t count) { return std::span(room).first(count); };
    for (const page_id bad : {-1, 4, std::numeric_limits<page_id>::max(), std::numeric_limits<page_id>::min()}) {
      EXPECT_TRUE(refused(pages.clear(std::vector<page_id>{1, bad})));
      EXPECT_TRUE(refused(pages.copy(std::vector<page_copy>{{0, 1, 4}, {bad, 2, 1}})));
      EXPECT_TRUE(refused(pages.copy(std::vector<page_copy>{{0, 1, 4}, {2, bad, 1}})));
      EXPECT_TRUE(refused(pages.read(bad, 1, first(line_bytes))));
      EXPECT_TRUE(refused(pages.write(bad, 1, first(line_bytes))));
    }
    for (const std::int32_t bad : {-1, 33, std::numeric_limits<std::int32_t>::max()}) {
      EXPECT_TRUE(refused(pages.copy(std::vector<page_copy>{{0, 1, bad}})));
      EXPECT_TRUE(refused(pages.read(0, bad, room)));
      EXPECT_TRUE(refused(pages.write(0, bad, room)));
    }
    EXPECT_TRUE(refused(pages.read(0, 2, first(2 * line_bytes - 1))));
    EXPECT_TRUE(refused(pages.write(0, 2, first(2 * line_bytes + 1))));
    for (page_id p = 0; p < 4; ++p) EXPECT_EQ(read(pages, p), before[static_cast<std::size_t>(p)]);
  });
}

INSTANTIATE_TEST_SUITE_P(page_memory, any_layout,
                         testing::Values(elements{line_type::f32}, elements{line_type::f16}, elements{line_type::bf16},
                                         elements{line_type::int8, scale_span::group},
                                         elements{line_type::int8, scale_span::head},
                                         elements{line_type::int8, scale_span::line}));

TEST(page_memory, impossible_sizes_are_errors) {
  EXPECT_EQ(page_memory::create(small, 0).error().code, "out_of_memory");
  EXPECT_EQ(page_memory::create(small, -3).error().code, "out_of_memory");
  cache_shape none = small;
  none.layers = 0;
  EXPECT_EQ(page_memory::create(none, 4).error().code, "invalid_cache_shape");
  EXPECT_EQ(page_memory::create(small, 4, {.shards = 3}).error().code, "invalid_cache_options");
  const cache_shape largest{.layers = 1 << 14, .kv_heads = 64, .head_dim = 1 << 16, .type = line_type::f32};
  EXPECT_EQ(page_memory::create(largest, std::numeric_limits<std::int32_t>::max()).error().code, "out_of_memory");
}

}  // namespace
}  // namespace kvern::gpu
