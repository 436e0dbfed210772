#include "actors/fair_queue.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace kvern::actors {
namespace {

TEST(fair_queue, tenants_take_turns_and_keep_their_order) {
  fair_queue<int> queue(10);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(queue.push("many", i));
  int first = 10;
  int second = 11;
  EXPECT_TRUE(queue.push("few", first));
  EXPECT_TRUE(queue.push("few", second));
  std::vector<int> order;
  while (!queue.empty()) order.push_back(queue.pop());
  EXPECT_EQ(order, (std::vector{0, 10, 1, 11, 2, 3}));
}

TEST(fair_queue, a_full_tenant_is_refused_alone_and_keeps_its_item) {
  fair_queue<std::unique_ptr<int>> queue(1);
  auto a = std::make_unique<int>(1);
  auto b = std::make_unique<int>(2);
  auto c = std::make_unique<int>(3);
  EXPECT_TRUE(queue.push("x", a));
  EXPECT_FALSE(queue.push("x", b));
  ASSERT_TRUE(b);
  EXPECT_TRUE(queue.push("y", c));
  EXPECT_EQ(*queue.pop(), 1);
  EXPECT_TRUE(queue.push("x", b));
  EXPECT_EQ(*queue.pop(), 3);
  EXPECT_EQ(*queue.pop(), 2);
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace kvern::actors
