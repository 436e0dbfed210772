#include "daemon/content_hash.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kvern::daemon {
namespace {

std::string hash_of(const std::vector<std::string>& files) {
  std::vector<std::span<const std::byte>> bytes;
  for (const auto& file : files) bytes.push_back(std::as_bytes(std::span(file)));
  return content_hash(bytes);
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
