#include "ipc/signal.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <thread>

namespace kvern::ipc {
namespace {

namespace asio = boost::asio;

asio::awaitable<void> count_up_to(std::shared_ptr<signal> s, std::shared_ptr<std::atomic<int>> value, int last) {
  while (*value < last) co_await s->wait();
  s->close();
}

TEST(signal, loses_no_wake_up_of_other_threads) {
  asio::io_context io{1};
  const auto s = std::make_shared<signal>(io.get_executor(), nullptr);
  const auto value = std::make_shared<std::atomic<int>>(0);
  asio::co_spawn(io, count_up_to(s, value, 3000), asio::detached);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        ++*value;
        s->notify();
      }
    });
  }
  io.run();
  for (auto& t : threads) t.join();
  EXPECT_EQ(*value, 3000);
}

TEST(signal, is_silent_once_closed) {
  asio::io_context io{1};
  int woken = 0;
  auto s = std::make_shared<signal>(io.get_executor(), [&] { ++woken; });
  s->notify();
  s->notify();
  io.run();
  EXPECT_EQ(woken, 1);  // together
  s->close();
  s->notify();
  io.restart();
  EXPECT_EQ(io.run(), 0u);
  EXPECT_EQ(woken, 1);
}

}  // namespace
}  // namespace kvern::ipc
