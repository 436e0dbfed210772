#include "gpu/engine/cache_domain.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace kvern::gpu {
namespace {

TEST(CacheDomain, NoTwoListsOfPartsGiveOneString) {
  using parts = std::vector<domain_part>;
  const std::vector<parts> different = {
      {},
      {{"tenant", "uid:1"}},
      {{"tenant", "uid:10"}},
      {{"tenant", "uid:1"}, {"", "0"}},
      {{"tenantu", "id:1"}},
      {{"tenant", ""}, {"uid:1", ""}},
      {{"tenant", "a"}, {"model", "b"}},
      {{"model", "b"}, {"tenant", "a"}},
      {{"tenant", std::string_view("a\0model", 7)}},
      {{"", ""}},
      {{"", ""}, {"", ""}},
  };
  std::set<std::string> seen;
  for (const parts& p : different) EXPECT_TRUE(seen.insert(encode_domain(p)).second) << p.size();
  EXPECT_EQ(encode_domain(parts{{"t", "v"}}), std::string("\1\0\0\0\0\0\0\0t\1\0\0\0\0\0\0\0v", 18));
}

}  // namespace
}  // namespace kvern::gpu
