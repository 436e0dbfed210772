#include "gpu/cache/memory_arena.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace kvern::gpu {
namespace {

TEST(memory_arena, blocks_are_zeroed_aligned_and_apart) {
  constexpr std::uint64_t most = memory_arena::chunk_bytes / 4;  // so that several chunks are needed
  constexpr std::uint32_t seed = 5;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  memory_arena arena;
  std::vector<memory_block> blocks;
  for (int n = 0; n < 100; ++n) {
    const std::uint64_t bytes = n % 10 == 9 ? most - random() % 1000 : 1 + random() % 5000;
    auto block = arena.take(bytes, "a test");
    ASSERT_TRUE(block) << block.error().message;
    ASSERT_EQ(block->size(), bytes);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block->data()) % 64, 0U);
    const std::span<const std::byte> last(block->data() + bytes - std::min<std::uint64_t>(bytes, 5000),
                                          block->data() + bytes);
    ASSERT_TRUE(std::all_of(last.begin(), last.end(), [](std::byte value) { return value == std::byte{0}; }));
    std::memset(block->data(), n + 1, std::min<std::uint64_t>(bytes, 5000));
    block->data()[bytes - 1] = std::byte(n + 1);
    blocks.push_back(std::move(*block));
  }
  for (int n = 0; n < 100; ++n) {
    const memory_block& block = blocks[static_cast<std::size_t>(n)];
    for (std::uint64_t at = 0; at < std::min<std::uint64_t>(block.size(), 5000); ++at)
      ASSERT_EQ(block.data()[at], std::byte(n + 1)) << n << " " << at;
    ASSERT_EQ(block.data()[block.size() - 1], std::byte(n + 1));
  }
}

TEST(memory_arena, neighbours_are_one_stream) {
  memory_arena arena;
  const auto first = arena.take(100, "a test"), second = arena.take(64, "a test"), third = arena.take(1, "a test");
  ASSERT_TRUE(first && second && third);
  EXPECT_EQ(second->data() - first->data(), 128);
  EXPECT_EQ(third->data() - second->data(), 64);
}

TEST(memory_arena, a_block_outlives_the_arena_and_its_neighbours) {
  memory_block kept;
  {
    memory_arena arena;
    const auto before = arena.take(1000, "a test");
    auto block = arena.take(1000, "a test");
    ASSERT_TRUE(before && block);
    kept = std::move(*block);
  }
  std::memset(kept.data(), 7, kept.size());
  EXPECT_EQ(kept.data()[999], std::byte{7});
}

TEST(memory_arena, a_large_block_stands_alone) {
  memory_arena arena;
  const auto large = arena.take(memory_arena::chunk_bytes * 2, "a test");
  ASSERT_TRUE(large);
  EXPECT_EQ(large->size(), memory_arena::chunk_bytes * 2);
  const auto nothing = arena.take(0, "a test");
  ASSERT_TRUE(nothing);
  EXPECT_EQ(nothing->size(), 0U);
  const auto too_large = arena.take(std::uint64_t{1} << 62, "a test");
  ASSERT_FALSE(too_large);
  EXPECT_EQ(too_large.error().code, "out_of_memory");
}

}  // namespace
}  // namespace kvern::gpu
