#include "gpu/cache/memory_block.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace kvern::gpu {
namespace {

TEST(memory_block, is_zero_aligned_and_movable) {
  auto made = memory_block::create(100'000, "a test");
  ASSERT_TRUE(made);
  memory_block block = std::move(*made);
  EXPECT_EQ(block.size(), 100'000u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.data()) % 64, 0u);
  EXPECT_TRUE(std::all_of(block.data(), block.data() + block.size(), [](std::byte b) { return b == std::byte{0}; }));
  block.data()[99'999] = std::byte{7};
  const memory_block moved = std::move(block);
  EXPECT_EQ(moved.data()[99'999], std::byte{7});
}

TEST(memory_block, nothing_is_a_block_too) {
  auto made = memory_block::create(0, "a test");
  ASSERT_TRUE(made);
  EXPECT_EQ(made->size(), 0u);
}

TEST(memory_block, an_absurd_size_is_an_error) {
  for (const auto bytes : {std::numeric_limits<std::uint64_t>::max(), std::uint64_t{1} << 62}) {
    const auto made = memory_block::create(bytes, "a test");
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, "out_of_memory");
    EXPECT_NE(made.error().message.find("a test"), std::string::npos);
  }
}

TEST(memory_block, any_wish_for_nodes_leaves_it_usable) {
  for (const std::vector<int>& nodes :
       {std::vector<int>{0}, {}, {0, 1}, {1023}, {-1}, {1024}, {std::numeric_limits<int>::max()}}) {
    auto block = memory_block::create(100'000, "a test");
    ASSERT_TRUE(block);
    block->prefer_nodes(nodes);
    EXPECT_EQ(block->data()[99'999], std::byte{0});
    block->data()[99'999] = std::byte{7};
    memory_block().prefer_nodes(nodes);
  }
}

TEST(memory_block, noise_follows_its_seed_and_holds_nans) {
  auto a = memory_block::create(40'003, "a test");
  auto b = memory_block::create(40'003, "a test");
  ASSERT_TRUE(a && b);
  a->fill_with_noise(1);
  b->fill_with_noise(1);
  EXPECT_TRUE(std::equal(a->data(), a->data() + a->size(), b->data()));
  EXPECT_TRUE(std::any_of(a->as<float>(), a->as<float>() + 10'000, [](float x) { return std::isnan(x); }));
  b->fill_with_noise(2);
  EXPECT_FALSE(std::equal(a->data(), a->data() + a->size(), b->data()));
}

}  // namespace
}  // namespace kvern::gpu
