#include "actors/gate.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace kvern::actors {
namespace {

using namespace std::chrono_literals;

TEST(gate, opens_when_the_last_has_left) {
  gate g;
  EXPECT_TRUE(g.wait_empty(0ms));
  auto a = g.enter();
  auto b = g.enter();
  EXPECT_EQ(g.inside(), 2);
  EXPECT_FALSE(g.wait_empty(0ms));
  std::thread leaves([&] {
    a.reset();
    b = gate::pass();
  });
  EXPECT_TRUE(g.wait_empty(10s));
  leaves.join();
}

TEST(gate, a_moved_pass_leaves_once_and_may_outlive_the_gate) {
  gate::pass kept;
  {
    gate g;
    auto a = g.enter();
    kept = std::move(a);
    a.reset();
    EXPECT_EQ(g.inside(), 1);
  }
  kept.reset();
}

}  // namespace
}  // namespace kvern::actors
