#include "gpu/cache/line_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace kvern::gpu {
namespace {

constexpr cache_shape small{.layers = 3, .kv_heads = 5, .head_dim = 3, .type = line_type::int8};
constexpr std::int64_t line_count = 7;

/// Every part of every line: where it begins, in the order of addresses, with its shard, layer, k or v, and line.
struct place {
  const std::byte* begin;
  std::int32_t shard, layer, part;
  std::int64_t line;
};

std::vector<place> places(const line_memory& memory) {
  std::vector<place> all;
  for (std::int32_t s = 0; s < memory.shards(); ++s)
    for (std::int32_t layer = 0; layer < memory.shape().layers; ++layer)
      for (std::int32_t part = 0; part < line_parts; ++part)
        for (std::int64_t n = 0; n < line_count; ++n)
          all.push_back({memory.lines(s, layer, static_cast<line_part>(part)).line(n), s, layer, part, n});
  return all;
}

TEST(line_memory, no_two_parts_overlap_in_any_layout_and_shards_hold_all_heads) {
  for (const line_order order : {line_order::by_part, line_order::by_line})
    for (const bool stacked : {true, false})
      for (const std::int32_t shards : {1, 2, 3, 5}) {
        auto made = line_memory::create(small, line_count, {.order = order, .stacked = stacked, .shards = shards});
        ASSERT_TRUE(made);
        const line_memory memory = std::move(*made);  // runs outlive the move
        std::vector<place> all = places(memory);
        std::sort(all.begin(), all.end(), [](const place& a, const place& b) { return a.begin < b.begin; });
        std::uint64_t bytes = 0;
        for (std::size_t i = 0; i < all.size(); ++i) {
          const std::uint64_t part = memory.shard(all[i].shard).part_bytes();
          bytes += part;
          const std::byte* const next = i + 1 < all.size() ? all[i + 1].begin : nullptr;
          EXPECT_TRUE(next == nullptr || all[i].begin + part <= next);
          EXPECT_EQ(reinterpret_cast<std::uintptr_t>(all[i].begin) % 4, 0u);
        }
        EXPECT_EQ(memory.bytes(), bytes);
        std::int32_t heads = 0;
        for (std::int32_t s = 0; s < shards; ++s) {
          EXPECT_EQ(memory.heads(s), (head_range{heads, memory.shard(s).kv_heads}));
          heads += memory.heads(s).count;
        }
        EXPECT_EQ(heads, small.kv_heads);
      }
}

TEST(line_memory, stacked_lines_or_parts_follow_one_another) {
  const auto part = static_cast<std::int64_t>(small.part_bytes());
  auto by_part = line_memory::create(small, line_count, {.order = line_order::by_part});
  auto by_line = line_memory::create(small, line_count, {.order = line_order::by_line});
  ASSERT_TRUE(by_part && by_line);
  for (const place& p : places(*by_part))
    EXPECT_EQ(p.begin - by_part->lines(0, 0, line_part::k).base,
              ((p.layer * line_parts + p.part) * line_count + p.line) * part);
  for (const place& p : places(*by_line))
    EXPECT_EQ(p.begin - by_line->lines(0, 0, line_part::k).base,
              ((p.line * small.layers + p.layer) * line_parts + p.part) * part);
}

TEST(line_memory, noise_is_everywhere_and_else_zeros) {
  for (const bool stacked : {true, false}) {
    const auto zero = line_memory::create(small, line_count, {.stacked = stacked, .shards = 2});
    const auto noise = line_memory::create(small, line_count, {.stacked = stacked, .shards = 2, .noise_seed = 1});
    ASSERT_TRUE(zero && noise);
    for (std::int32_t s = 0; s < 2; ++s)
      for (std::int32_t layer = 0; layer < small.layers; ++layer)
        for (const line_part part : {line_part::k, line_part::v}) {
          const auto bytes = static_cast<std::ptrdiff_t>(zero->shard(s).part_bytes()) * line_count;
          const std::byte* at = zero->lines(s, layer, part).base;
          EXPECT_TRUE(std::all_of(at, at + bytes, [](std::byte b) { return b == std::byte{0}; }));
          at = noise->lines(s, layer, part).base;
          EXPECT_LT(std::count(at, at + bytes, std::byte{0}), bytes / 4);
        }
  }
}

TEST(line_memory, nodes_of_shards_are_a_wish) {
  const auto made = line_memory::create(small, line_count, {.shards = 2, .nodes = {{0}, {1, 900}}});
  ASSERT_TRUE(made);
  EXPECT_EQ(*made->lines(1, 2, line_part::v).line(line_count - 1), std::byte{0});
}

TEST(line_memory, impossible_sizes_are_errors) {
  constexpr auto huge = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t lines : {std::int64_t{0}, std::int64_t{-1}, huge, huge / 100}) {
    const auto made = line_memory::create(small, lines, {.purpose = "a test"});
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, "out_of_memory");
    EXPECT_NE(made.error().message.find("a test"), std::string::npos);
  }
  EXPECT_EQ(line_memory::create({}, 1, {}).error().code, "invalid_cache_shape");
  EXPECT_EQ(line_memory::create(small, 1, {.shards = 6}).error().code, "invalid_cache_options");
}

}  // namespace
}  // namespace kvern::gpu
