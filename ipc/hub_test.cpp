#include "ipc/hub.hpp"

#include <gtest/gtest.h>

#include <set>

#include "ipc/fake_service.hpp"

namespace kvern::ipc {
namespace {

// Connections are only told apart here, never looked into.
connection* nth(std::uintptr_t n) { return reinterpret_cast<connection*>(n * 64); }

TEST(hub, keeps_room_for_other_users) {
  server_options o;
  o.max_connections = 4;
  hub h(o, std::make_shared<fake_service>());
  for (std::uintptr_t i = 1; i <= 3; ++i) {
    EXPECT_TRUE(h.admits(1000));
    h.add(nth(i), 1000);
  }
  EXPECT_FALSE(h.admits(1000));
  EXPECT_TRUE(h.admits(1001));
  h.add(nth(4), 1001);
  EXPECT_FALSE(h.admits(1002));
  EXPECT_EQ(h.open(), 4);
  EXPECT_FALSE(h.wait_for_none(std::chrono::milliseconds(1)));
  for (std::uintptr_t i = 1; i <= 3; ++i) h.remove(nth(i), 1000);
  EXPECT_TRUE(h.admits(1000));
  h.remove(nth(4), 1001);
  h.remove(nth(4), 1001);
  EXPECT_EQ(h.open(), 0);
  EXPECT_TRUE(h.wait_for_none(std::chrono::milliseconds(1)));
}

TEST(hub, bounds_the_memory_of_bodies) {
  server_options o;
  o.max_body_memory = 100;
  hub h(o, std::make_shared<fake_service>());
  EXPECT_TRUE(h.reserve_body(60));
  EXPECT_FALSE(h.reserve_body(41));
  EXPECT_FALSE(h.reserve_body(UINT64_MAX));
  EXPECT_TRUE(h.reserve_body(40));
  h.release_body(60);
  EXPECT_TRUE(h.reserve_body(60));
}

TEST(hub, makes_ids_that_differ) {
  hub h({}, std::make_shared<fake_service>());
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) {
    const std::string id = h.new_id("cmpl-");
    EXPECT_EQ(id.size(), 5u + 24u);
    ids.insert(id);
  }
  EXPECT_EQ(ids.size(), 1000u);
}

}  // namespace
}  // namespace kvern::ipc
