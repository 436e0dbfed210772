#include "gpu/engine/prefix_index.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace kvern::gpu {
namespace {

std::vector<token_id> numbers(std::size_t count) {
  std::vector<token_id> out(count);
  std::iota(out.begin(), out.end(), 0);
  return out;
}

TEST(PrefixIndex, HashesCoverEverythingBefore) {
  const domain_secret secret = make_secret();
  std::vector<token_id> a = numbers(130);
  const auto chain = hash_blocks(a, secret);
  ASSERT_EQ(chain.size(), 4U) << "full blocks only";
  EXPECT_EQ(hash_blocks(std::span(a).first(96), secret), std::vector<block_hash>(chain.begin(), chain.begin() + 3));
  a[0] = 7;
  const auto other = hash_blocks(a, secret);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NE(other[i], chain[i]);
}

TEST(PrefixIndex, AnotherDomainsHashesAreOthers) {
  const std::vector<token_id> a = numbers(64);
  const domain_secret root = make_secret();
  EXPECT_EQ(derive_secret(root, "a"), derive_secret(root, "a"));
  EXPECT_NE(hash_blocks(a, derive_secret(root, "a"))[0], hash_blocks(a, derive_secret(root, "b"))[0]);
  EXPECT_NE(hash_blocks(a, make_secret())[0], hash_blocks(a, make_secret())[0]);
}

TEST(PrefixIndex, FindsWhatWasAddedInItsTable) {
  const domain_secret secret = make_secret();
  const std::vector<token_id> a = numbers(64);
  const auto chain = hash_blocks(a, secret);
  prefix_index index(8);
  EXPECT_TRUE(index.add(3, 0, chain, 0, a));
  EXPECT_TRUE(index.add(5, 1, chain, 0, a));
  EXPECT_FALSE(index.add(6, 1, chain, 0, a)) << "the block has a page";
  EXPECT_EQ(index.find(0, chain, 0, a), 3);
  EXPECT_EQ(index.find(1, chain, 0, a), 5);
  EXPECT_EQ(index.find(0, chain, 1, a), no_page);
  index.remove(3);
  index.remove(4);
  EXPECT_EQ(index.find(0, chain, 0, a), no_page);
  EXPECT_EQ(index.size(), 1U);
  EXPECT_FALSE(index.has(3));
}

// A hash is not proof: tokens and the block before must agree too.
TEST(PrefixIndex, AnEqualHashAloneIsNoHit) {
  const domain_secret secret = make_secret();
  std::vector<token_id> a = numbers(64);
  const auto chain = hash_blocks(a, secret);
  prefix_index index(4);
  ASSERT_TRUE(index.add(0, 0, chain, 1, a));
  std::vector<token_id> b = a;
  b[40] = 9;
  EXPECT_EQ(index.find(0, chain, 1, b), no_page) << "other tokens";
  std::vector<block_hash> forged = chain;
  forged[0].low ^= 1;
  EXPECT_EQ(index.find(0, forged, 1, a), no_page) << "another block before";
  EXPECT_EQ(index.find(0, chain, 1, a), 0);
}

}  // namespace
}  // namespace kvern::gpu
