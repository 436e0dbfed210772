#include "actors/event_stream.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "actors/errors.hpp"

namespace kvern::actors {
namespace {

struct recorder : generation_sink {
  std::vector<generation_event> events;
  std::size_t throw_at = SIZE_MAX;
  void on_event(generation_event event) override {
    if (events.size() == throw_at) throw std::runtime_error("gone");
    events.push_back(std::move(event));
  }
  template <class T>
  const T* last() const {
    return events.empty() ? nullptr : std::get_if<T>(&events.back());
  }
};

struct fixture : testing::Test {
  std::shared_ptr<recorder> sink = std::make_shared<recorder>();
  std::shared_ptr<std::atomic<std::int64_t>> refused = std::make_shared<std::atomic<std::int64_t>>(0);
  event_stream stream{sink, refused};
};

using event_streams = fixture;

TEST_F(event_streams, from_start_to_end) {
  EXPECT_TRUE(stream.start({}));
  EXPECT_TRUE(stream.progress({1, 2}));
  EXPECT_TRUE(stream.text({"a", {}}));
  EXPECT_FALSE(stream.refuse(session_busy()));
  EXPECT_TRUE(stream.end({}));
  EXPECT_TRUE(stream.closed());
  EXPECT_FALSE(stream.text({"b", {}}));
  EXPECT_EQ(sink->events.size(), 4u);
  EXPECT_EQ(refused->load(), 0);
}

TEST_F(event_streams, nothing_comes_before_the_start) {
  EXPECT_FALSE(stream.text({"a", {}}));
  EXPECT_FALSE(stream.end({}));
  EXPECT_TRUE(sink->events.empty());
  EXPECT_FALSE(stream.closed());
}

TEST_F(event_streams, a_dropped_stream_refuses) {
  { auto dropped = std::move(stream); }
  ASSERT_TRUE(sink->last<refused_event>());
  EXPECT_EQ(sink->last<refused_event>()->why.code, "shutting_down");
  EXPECT_EQ(refused->load(), 1);
}

TEST_F(event_streams, a_dropped_stream_that_had_started_ends) {
  stream.start({});
  stream = event_stream();
  ASSERT_TRUE(sink->last<end_event>());
  EXPECT_EQ(sink->last<end_event>()->reason, gpu::finish_reason::failed);
  EXPECT_EQ(sink->last<end_event>()->why.code, "shutting_down");
  EXPECT_EQ(sink->events.size(), 2u);
}

TEST_F(event_streams, a_sink_that_throws_is_not_called_again) {
  sink->throw_at = 1;
  EXPECT_TRUE(stream.start({}));
  EXPECT_FALSE(stream.text({"a", {}}));
  EXPECT_TRUE(stream.closed());
  EXPECT_FALSE(stream.end({}));
  EXPECT_EQ(sink->events.size(), 1u);
}

}  // namespace
}  // namespace kvern::actors
