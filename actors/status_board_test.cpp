#include "actors/status_board.hpp"

#include <gtest/gtest.h>

namespace kvern::actors {
namespace {

TEST(status_board, shows_what_was_published_last) {
  status_board board;
  gpu::engine_stats stats;
  stats.steps = 7;
  stats.running = 3;
  board.publish(stats);
  EXPECT_EQ(board.engine().steps, 7u);
  EXPECT_EQ(board.engine().running, 3);
}

TEST(status_board, a_beat_makes_the_heart_young) {
  status_board board;
  const auto before = board.heartbeat_age_seconds();
  EXPECT_GE(before, 0);
  while (board.heartbeat_age_seconds() <= before) {
  }
  const auto old = board.heartbeat_age_seconds();
  board.beat();
  EXPECT_LT(board.heartbeat_age_seconds(), old + 1);
  EXPECT_GE(board.uptime_seconds(), old);
}

TEST(status_board, the_first_failure_stays) {
  status_board board;
  EXPECT_TRUE(board.worker_alive());
  board.worker_failed("first");
  board.worker_failed("second");
  EXPECT_FALSE(board.worker_alive());
  EXPECT_EQ(board.failure(), "first");
}

}  // namespace
}  // namespace kvern::actors
