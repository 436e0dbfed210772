#include "gpu/engine/cache_domain.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace kvern::gpu {
namespace {

using owned_parts = std::vector<std::pair<std::string, std::string>>;

std::string text_of(const owned_parts& owned) {
  std::vector<domain_part> parts;
  for (const auto& [tag, value] : owned) parts.push_back({tag, value});
  return encode_domain(parts);
}

TEST(CacheDomain, DifferentPartsGiveDifferentTexts) {
  // Short texts of the very characters that separate: every list a mean caller could think of.
  constexpr std::uint64_t seed = 4;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const auto word = [&] {
    std::string out;
    for (auto length = random() % 4; length > 0; --length) out += "1:=;a0"[random() % 6];
    return out;
  };
  std::map<std::string, owned_parts> seen;
  for (int i = 0; i < 100'000; ++i) {
    owned_parts parts;
    for (auto count = random() % 3; count > 0; --count) parts.emplace_back(word(), word());
    const auto [known, added] = seen.emplace(text_of(parts), parts);
    ASSERT_EQ(known->second, parts);
  }
  EXPECT_GT(seen.size(), 10'000U);
}

TEST(CacheDomain, DependsOnOrderAndIsStable) {
  EXPECT_EQ(text_of({}), "");
  EXPECT_EQ(text_of({{"kv_type", "f16"}, {"model", ""}}), "7:kv_type=3:f16;5:model=0:;");
  EXPECT_NE(text_of({{"a", "1"}, {"b", "2"}}), text_of({{"b", "2"}, {"a", "1"}}));
}

}  // namespace
}  // namespace kvern::gpu
