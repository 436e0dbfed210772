#include "gpu/cpu/stalled_thread.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <semaphore>
#include <thread>
#include <vector>

namespace kvern::gpu::cpu {
namespace {

cpu_set_t affinity_of(pid_t id) {
  cpu_set_t set;
  EXPECT_EQ(sched_getaffinity(id, sizeof set, &set), 0);
  return set;
}

bool same(const cpu_set_t& a, const cpu_set_t& b) { return CPU_EQUAL(&a, &b) != 0; }

/// A thread that holds work and does not run until it is let go.
struct blocked {
  stalled_thread seen;
  std::atomic<pid_t> id{0};
  std::binary_semaphore holds{0}, go{0}, ended{0}, leave{0};
  std::thread thread;

  explicit blocked(bool leaves) {
    thread = std::thread([this, leaves] {
      id = gettid();
      seen.begin();
      holds.release();
      go.acquire();
      seen.end(leaves);
      ended.release();
      leave.acquire();
    });
    holds.acquire();
  }
  ~blocked() {
    leave.release();
    thread.join();
  }
  void finish() {
    go.release();
    ended.acquire();
  }
};

TEST(stalled_thread, runs_where_it_is_brought_and_goes_home_afterwards) {
  const cpu_set_t before = affinity_of(0);
  if (CPU_COUNT(&before) < 2) GTEST_SKIP() << "needs two processors";
  for (const bool leaves : {false, true}) {
    blocked b(leaves);
    EXPECT_TRUE(b.seen.holds_work());
    // The test must know its own processor while it looks.
    const int here = sched_getcpu();
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(static_cast<std::size_t>(here), &only);
    ASSERT_EQ(sched_setaffinity(0, sizeof only, &only), 0);
    EXPECT_TRUE(b.seen.bring_here());
    EXPECT_TRUE(same(affinity_of(b.id), only));
    EXPECT_FALSE(b.seen.bring_here());  // moved already
    b.finish();
    EXPECT_TRUE(same(affinity_of(b.id), before));
    EXPECT_FALSE(b.seen.holds_work());
    EXPECT_FALSE(b.seen.bring_here());  // nobody waits for it
    EXPECT_TRUE(same(affinity_of(b.id), before));
    ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  }
}

TEST(stalled_thread, its_time_stands_still_while_it_does_not_run) {
  EXPECT_EQ(stalled_thread().time(), std::nullopt);  // nobody's
  blocked b(false);
  auto time = b.seen.time();
  for (auto later = b.seen.time(); later != time; later = b.seen.time()) time = later;  // until it has fallen asleep
  ASSERT_TRUE(time.has_value());
  EXPECT_GT(time->count(), 0);
  EXPECT_EQ(b.seen.time(), time);
  b.finish();

  stalled_thread self;
  self.begin();
  const auto mine = self.time();
  while (self.time() == mine) {
  }
  EXPECT_GT(self.time(), mine);
  self.end(false);
}

TEST(stalled_thread, stays_where_it_must) {
  const cpu_set_t before = affinity_of(0);
  blocked b(false);
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(static_cast<std::size_t>(sched_getcpu()), &only);
  ASSERT_EQ(sched_setaffinity(b.id, sizeof only, &only), 0);
  EXPECT_FALSE(b.seen.bring_here());
  EXPECT_TRUE(same(affinity_of(b.id), only));
  b.finish();
  EXPECT_TRUE(same(affinity_of(b.id), only));
  EXPECT_TRUE(same(affinity_of(0), before));
}

TEST(leave_processor, keeps_where_the_thread_may_run) {
  const cpu_set_t before = affinity_of(0);
  leave_processor();
  EXPECT_TRUE(same(affinity_of(0), before));
}

/// Moved at any moment, by several at once, it is home at the end.
TEST(stalled_thread, is_home_after_every_end) {
  const cpu_set_t before = affinity_of(0);
  stalled_thread seen;
  std::atomic<bool> stop{false};
  std::vector<std::thread> movers;
  for (int n = 0; n < 2; ++n)
    movers.emplace_back([&] {
      while (!stop.load()) seen.bring_here();
    });
  for (int round = 0; round < 300; ++round) {
    seen.begin();
    std::this_thread::yield();
    seen.end(round % 2 == 0);
    ASSERT_TRUE(same(affinity_of(0), before)) << round;
  }
  stop = true;
  for (std::thread& t : movers) t.join();
  EXPECT_TRUE(same(affinity_of(0), before));
}

}  // namespace
}  // namespace kvern::gpu::cpu
