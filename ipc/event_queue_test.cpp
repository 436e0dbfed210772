#include "ipc/event_queue.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace kvern::ipc {
namespace {

text_event text(std::size_t size) { return {std::string(size, 'x'), {}}; }

TEST(event_queue, hands_events_over_in_order) {
  int woken = 0;
  const auto q = std::make_shared<event_queue>([&] { ++woken; }, 10'000);
  const auto a = q->sink(0);
  const auto b = q->sink(1);
  a->on_event(started_event{});
  b->on_event(refused_event{{"queue_full", ""}});
  a->on_event(text(1));
  const auto items = q->take();
  ASSERT_EQ(items.size(), 3u);
  EXPECT_EQ(items[0].choice, 0u);
  EXPECT_EQ(items[1].choice, 1u);
  EXPECT_TRUE(std::holds_alternative<refused_event>(items[1].event));
  EXPECT_TRUE(std::holds_alternative<text_event>(items[2].event));
  EXPECT_EQ(woken, 3);
  EXPECT_TRUE(q->take().empty());
}

TEST(event_queue, is_bounded_in_bytes) {
  int woken = 0;
  const auto q = std::make_shared<event_queue>([&] { ++woken; }, 3000);
  const auto sink = q->sink(0);
  for (int i = 0; i < 100; ++i) {
    sink->on_event(text(700));
    q->take();
  }
  EXPECT_FALSE(q->overflowed());
  for (int i = 0; i < 4; ++i) sink->on_event(text(700));
  EXPECT_TRUE(q->overflowed());
  EXPECT_TRUE(q->take().empty());
  woken = 0;
  sink->on_event(text(1));
  EXPECT_EQ(woken, 0);
}

TEST(event_queue, is_silent_once_closed) {
  int woken = 0;
  auto q = std::make_shared<event_queue>([&] { ++woken; }, 3000);
  const auto sink = q->sink(0);
  sink->on_event(text(1));
  q->close();
  sink->on_event(text(1));
  EXPECT_TRUE(q->take().empty());
  EXPECT_EQ(woken, 1);
  q.reset();
  sink->on_event(text(1));  // the sink keeps the queue alive
}

TEST(event_queue, takes_events_of_many_threads) {
  std::atomic<int> woken = 0;
  const auto q = std::make_shared<event_queue>([&] { ++woken; }, 1u << 30);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 4; ++i) {
    threads.emplace_back([sink = q->sink(i)] {
      for (int n = 0; n < 1000; ++n) sink->on_event(progress_event{n, 1000});
    });
  }
  std::vector<std::int64_t> next(4);
  std::size_t taken = 0;
  while (taken < 4000) {
    for (const auto& item : q->take()) {
      EXPECT_EQ(std::get<progress_event>(item.event).processed, next[item.choice]++);
      ++taken;
    }
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(woken, 4000);
}

TEST(event_queue, measures_what_goes_over_the_wire) {
  text_event e = text(10);
  const auto plain = wire_bytes(e);
  e.tokens.resize(1);
  e.tokens[0].logprob.alternatives.resize(20);
  EXPECT_GT(wire_bytes(e), plain + 20 * 50);
  EXPECT_EQ(wire_bytes(started_event{}), 0u);
}

}  // namespace
}  // namespace kvern::ipc
