#include "gpu/engine/frame_pool.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace kvern::gpu {
namespace {

TEST(FramePool, GivesEachFrameOnceAndTakesItBack) {
  frame_pool pool(3);
  frame_account tenant;
  std::vector<frame_claim> claims;
  for (int i = 0; i < 3; ++i) claims.push_back(pool.allocate(tenant));
  EXPECT_EQ(pool.free_frames(), 0);
  EXPECT_EQ(pool.allocate(tenant).frame, no_frame);
  EXPECT_EQ(tenant.frames, 3);
  EXPECT_TRUE(pool.consistent());
  for (const frame_claim& c : claims) {
    pool.stop_using(c, idle_rank::unused);
    pool.drop(c);
    EXPECT_FALSE(pool.valid(c));
  }
  EXPECT_EQ(pool.free_frames(), 3);
  EXPECT_EQ(tenant.frames, 0);
  EXPECT_TRUE(pool.consistent());
}

TEST(FramePool, EvictsByRankThenByAge) {
  frame_pool pool(4);
  frame_account tenant;
  std::vector<frame_claim> c;
  for (int i = 0; i < 4; ++i) c.push_back(pool.allocate(tenant));
  EXPECT_EQ(pool.next_to_evict(tenant), no_frame) << "in use";
  pool.stop_using(c[0], idle_rank::awaited);
  pool.stop_using(c[1], idle_rank::unused);
  pool.stop_using(c[2], idle_rank::unused);
  pool.stop_using(c[3], idle_rank::out_of_window);
  for (const int expected : {3, 1, 2, 0}) {
    const frame_id f = pool.next_to_evict(tenant);
    EXPECT_EQ(f, c[static_cast<std::size_t>(expected)].frame);
    pool.evict(f);
    EXPECT_FALSE(pool.valid(c[static_cast<std::size_t>(expected)]));
    EXPECT_TRUE(pool.consistent());
  }
}

TEST(FramePool, AUseAgainMakesAFrameYoung) {
  frame_pool pool(2);
  frame_account tenant;
  const frame_claim a = pool.allocate(tenant), b = pool.allocate(tenant);
  pool.stop_using(a, idle_rank::unused);
  pool.stop_using(b, idle_rank::unused);
  pool.use(a);
  pool.stop_using(a, idle_rank::unused);
  EXPECT_EQ(pool.next_to_evict(tenant), b.frame);
}

TEST(FramePool, ASharedFrameLivesAsLongAsItsLastHolder) {
  frame_pool pool(1);
  frame_account tenant;
  const frame_claim c = pool.allocate(tenant);
  pool.hold(c);
  EXPECT_EQ(pool.shared(), 1);
  pool.stop_using(c, idle_rank::unused);
  pool.drop(c);
  EXPECT_EQ(pool.shared(), 0);
  EXPECT_TRUE(pool.valid(c));
  pool.drop(c);
  EXPECT_TRUE(pool.is_free(c.frame));
}

TEST(FramePool, ACachedFrameOutlivesItsHolders) {
  frame_pool pool(1);
  frame_account tenant;
  const frame_claim c = pool.allocate(tenant);
  pool.set_cached(c, true);
  pool.stop_using(c, idle_rank::unused);
  pool.drop(c);
  EXPECT_FALSE(pool.is_free(c.frame));
  EXPECT_EQ(tenant.idle, 1);
  EXPECT_TRUE(pool.valid(pool.claim(c.frame)));
  pool.set_cached(c, false);
  EXPECT_TRUE(pool.is_free(c.frame));
  EXPECT_TRUE(pool.consistent());
}

TEST(FramePool, SeizingLeavesOneHolderAndStaleClaims) {
  frame_pool pool(1);
  frame_account tenant;
  const frame_claim mine = pool.allocate(tenant);
  pool.hold(mine);
  pool.set_cached(mine, true);
  const frame_claim alone = pool.seize(mine);
  EXPECT_FALSE(pool.valid(mine));
  EXPECT_TRUE(pool.valid(alone));
  EXPECT_EQ(pool.holders(alone.frame), 1);
  EXPECT_EQ(pool.users(alone.frame), 1);
  EXPECT_FALSE(pool.cached(alone.frame));
  EXPECT_TRUE(pool.consistent());
}

}  // namespace
}  // namespace kvern::gpu
