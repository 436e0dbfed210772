#include "ipc/server.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "ipc/listener.hpp"
#include "ipc/raw_client.hpp"

namespace kvern::ipc {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using servers = served;

TEST_F(servers, remove_their_socket_when_they_stop) {
  start();
  EXPECT_EQ(get("/health").status, 200);
  server_->stop(milliseconds(1000));
  EXPECT_FALSE(std::filesystem::exists(path()));
  EXPECT_EQ(server_->connections(), 0);
  server_->stop(milliseconds(1000));  // once is enough, twice does no harm
  start();
  EXPECT_EQ(get("/health").status, 200);
}

TEST_F(servers, do_not_start_beside_a_live_one) {
  start();
  server_options o;
  o.socket_path = path();
  const auto second = server::start(o, service_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, "socket_in_use");
  EXPECT_EQ(get("/health").status, 200);
}

TEST_F(servers, serve_sockets_that_were_handed_over) {
  auto l = listener::bind(folder_.file("given"), 0600);
  ASSERT_TRUE(l);
  server_options o;
  o.listening = {::dup(l->fd())};
  auto s = server::start(o, service_);
  ASSERT_TRUE(s) << s.error().message;
  {
    raw_client c(folder_.file("given"));
    c.request("GET", "/health");
    EXPECT_EQ(c.answer().status, 200);
  }
  (*s)->stop(milliseconds(1000));
  EXPECT_TRUE(std::filesystem::exists(folder_.file("given")));  // the file is its maker's

  o.listening = {::open("/dev/null", 0)};
  EXPECT_EQ(server::start(o, service_).error().code, "socket_path_invalid");
}

TEST_F(servers, stop_at_once_with_idle_connections) {
  start();
  raw_client idle(path());
  idle.request("GET", "/health");
  idle.answer();
  raw_client half(path());
  half.send("POST /v1/tokenize HTTP/1.1\r\nContent-Length: 10\r\n\r\n{");
  const auto begin = steady_clock::now();
  server_->stop(milliseconds(5000));
  EXPECT_LT(steady_clock::now() - begin, milliseconds(2000));
  EXPECT_TRUE(idle.closed());
  EXPECT_TRUE(half.closed());
}

TEST_F(servers, end_streams_with_an_error_event) {
  service_->hold = true;
  start();
  raw_client stream(path());
  const auto running = ask(stream, "/v1/chat/completions", std::string(chat_body) + R"(,"stream":true})");
  running->start();
  running->text("x");
  ASSERT_EQ(stream.head().status, 200);
  stream.until("\"x\"");
  raw_client waiting(path());
  const auto queued = ask(waiting, "/v1/chat/completions", std::string(chat_body) + "}");
  raw_client replying(path());
  replying.post("/v1/tokenize", R"({"text":"a"})");
  auto held = service_->take_held();

  server_->stop(milliseconds(5000));
  const std::string rest = stream.rest();
  EXPECT_NE(rest.find("\"code\":\"shutting_down\""), std::string::npos) << rest;
  EXPECT_EQ(rest.find("[DONE]"), std::string::npos);
  EXPECT_TRUE(rest.ends_with("0\r\n\r\n"));
  EXPECT_EQ(waiting.answer().status, 503);
  EXPECT_EQ(replying.answer().code(), "shutting_down");
  EXPECT_TRUE(running->cancelled());
  EXPECT_TRUE(queued->cancelled());
  running->text("late");
  held();
}

TEST_F(servers, stop_within_their_limit_though_a_client_takes_nothing) {
  server_options o;
  o.max_queued_bytes = 64u << 20;
  start(o);
  raw_client stuck(path());
  const auto call = ask(stuck, "/v1/chat/completions", std::string(chat_body) + R"(,"stream":true})");
  call->start();
  for (int i = 0; i < 4096; ++i) call->text(std::string(1024, 'x'));
  const auto begin = steady_clock::now();
  server_->stop(milliseconds(400));
  EXPECT_LT(steady_clock::now() - begin, milliseconds(2000));
  EXPECT_TRUE(call->cancelled());
}

TEST_F(servers, bound_connections) {
  server_options o;
  o.max_connections = 8;
  start(o);
  std::vector<std::unique_ptr<raw_client>> clients;
  for (int i = 0; i < 6; ++i) {  // three quarters are one user's
    clients.push_back(std::make_unique<raw_client>(path()));
    clients.back()->request("GET", "/health");
    EXPECT_EQ(clients.back()->answer().status, 200);
  }
  EXPECT_EQ(server_->connections(), 6);
  raw_client more(path());
  const response r = more.answer();
  EXPECT_EQ(r.status, 503);
  EXPECT_EQ(r.code(), "too_many_connections");
  EXPECT_EQ(r.headers.at("Retry-After"), "1");
  clients.pop_back();
  for (int i = 0; i < 1000 && server_->connections() > 5; ++i) std::this_thread::yield();
  EXPECT_EQ(get("/health").status, 200);
}

TEST_F(servers, outlive_events_that_come_after_them) {
  start();
  raw_client c(path());
  const auto call = ask(c, "/v1/chat/completions", std::string(chat_body) + R"(,"stream":true})");
  call->start();
  std::atomic<bool> done = false;
  std::thread talker([&] {
    while (!done) call->text("x");
  });
  c.head();
  server_.reset();
  done = true;
  talker.join();
  call->end();
}

}  // namespace
}  // namespace kvern::ipc
