#include "daemon/fingerprint.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace kvern::daemon {
namespace {

using owned_parts = std::vector<std::pair<std::string, std::string>>;

std::string text_of(const owned_parts& owned) {
  std::vector<fingerprint_part> parts;
  for (const auto& [tag, value] : owned) parts.push_back({tag, value});
  return fingerprint(parts);
}

std::string hash_of(const std::vector<std::string>& files) {
  std::vector<std::span<const std::byte>> bytes;
  for (const auto& file : files) bytes.push_back(std::as_bytes(std::span(file)));
  return content_hash(bytes);
}

TEST(fingerprint, of_different_parts_differ) {
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
  EXPECT_GT(seen.size(), 10'000u);
}

TEST(fingerprint, depends_on_order_and_is_stable) {
  EXPECT_EQ(text_of({}), "");
  EXPECT_EQ(text_of({{"kv_type", "f16"}, {"model", ""}}), "7:kv_type=3:f16;5:model=0:;");
  EXPECT_NE(text_of({{"a", "1"}, {"b", "2"}}), text_of({{"b", "2"}, {"a", "1"}}));
}

TEST(content_hash, is_the_published_one) {
  EXPECT_EQ(hash_of({""}), "99aa06d3014798d86001c324468d497f");  // XXH3-128 of nothing
  EXPECT_EQ(hash_of({"abc"}).size(), 32u);
}

TEST(content_hash, sees_every_byte_and_every_border) {
  std::string text(5000, 'x');
  const auto before = hash_of({text});
  text[4321] = 'y';
  EXPECT_NE(hash_of({text}), before);
  EXPECT_NE(hash_of({"ab", "c"}), hash_of({"a", "bc"}));
  EXPECT_NE(hash_of({"ab"}), hash_of({"ab", ""}));
  EXPECT_EQ(hash_of({"ab", "c"}), hash_of({"ab", "c"}));
}

}  // namespace
}  // namespace kvern::daemon
