#include "actors/session_id.hpp"

#include <gtest/gtest.h>

#include <set>

namespace kvern::actors {
namespace {

TEST(session_id, is_a_prefix_and_32_hexadecimal_digits_never_the_same) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const auto id = make_session_id();
    ASSERT_EQ(id.size(), 34u);
    EXPECT_EQ(id.substr(0, 2), "s-");
    EXPECT_EQ(id.find_first_not_of("0123456789abcdef", 2), std::string::npos);
    EXPECT_TRUE(seen.insert(id).second);
  }
}

}  // namespace
}  // namespace kvern::actors
