#include "actors/system.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "actors/test_service.hpp"

namespace kvern::actors {
namespace {

using namespace std::chrono_literals;

struct systems : test::service_fixture {};

TEST_F(systems, shutting_down_ends_running_streams_and_refuses_new_ones) {
  answer_without_end();
  script->max_running = 3;
  start();
  const auto id = new_session();
  std::vector<running> streams;
  streams.push_back(begin(ask("p", id)));
  for (int i = 0; i < 2; ++i) streams.push_back(begin(ask("p")));
  for (auto& r : streams) ASSERT_TRUE(r->wait_for<text_event>());
  auto queued = begin(ask("q"));
  ASSERT_TRUE(script->wait([](auto& s) { return s.submitted == 4; }));
  service->shut_down(test::limit);
  // What shut_down waits for: the worker is idle, and everything has had its last event.
  EXPECT_EQ(script->turns, 0);
  EXPECT_EQ(script->sequences, 0);
  for (auto& r : streams) {
    EXPECT_TRUE(r->in_order());
    EXPECT_EQ(r->get<end_event>().reason, gpu::finish_reason::failed);
    EXPECT_EQ(r->get<end_event>().why.code, "shutting_down");
  }
  EXPECT_EQ(queued->get<refused_event>().why.code, "shutting_down");
  EXPECT_EQ(run(ask("late"))->get<refused_event>().why.code, "shutting_down");
  EXPECT_EQ(get(alice, id).error().code, "shutting_down");
  EXPECT_EQ(list(alice).error().code, "shutting_down");
  service->shut_down(test::limit);
}

TEST_F(systems, shutting_down_during_a_long_step_ends_the_streams_at_once_and_returns_at_its_limit) {
  answer_without_end();
  start();
  auto r = begin_held(ask("p"));
  const auto begin_time = std::chrono::steady_clock::now();
  service->shut_down(100ms);
  EXPECT_GE(std::chrono::steady_clock::now() - begin_time, 100ms);
  ASSERT_TRUE(r->wait_finished());
  EXPECT_EQ(r->get<refused_event>().why.code, "shutting_down");
  EXPECT_EQ(script->steps, 0);
  script->go();
  service->shut_down(test::limit);
  EXPECT_EQ(script->turns, 0);
}

TEST_F(systems, destroying_ends_everything_and_later_calls_of_handles_do_nothing) {
  answer_without_end();
  start();
  std::vector<running> streams;
  for (int i = 0; i < 20; ++i) streams.push_back(begin(ask("p")));
  service.reset();
  for (auto& r : streams) {
    ASSERT_TRUE(r->wait_finished());
    EXPECT_TRUE(r->in_order());
    r.handle->cancel();
    r.handle.reset();
  }
  EXPECT_TRUE(script->destroyed);
}

TEST_F(systems, destroying_does_not_wait_for_a_step_that_never_returns) {
  patience = 50ms;
  answer_without_end();
  start();
  auto r = begin(ask("p"));
  ASSERT_TRUE(r->wait_for<text_event>());
  script->hold();
  ASSERT_TRUE(script->wait([](auto& s) { return s.arrived > s.steps; }));
  service.reset();
  EXPECT_FALSE(script->destroyed);
  ASSERT_TRUE(r->wait_finished());
  EXPECT_EQ(r->get<end_event>().why.code, "shutting_down");
  r.handle->cancel();
  script->go();
}

TEST_F(systems, started_and_destroyed_again_and_again) {
  for (int i = 0; i < 50; ++i) {
    script = std::make_shared<test::engine_script>();
    start();
    if (i % 2) new_session();
    service.reset();
    EXPECT_TRUE(script->destroyed);
  }
  script = std::make_shared<test::engine_script>();
  start();
}

TEST_F(systems, calls_from_many_threads) {
  answer("hello");
  start();
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      const auto id = new_session();
      for (int i = 0; i < 10; ++i) {
        right += run(ask("p", id))->text() == "hello";
        service->stats();
        EXPECT_TRUE(list(alice).has_value());
      }
      EXPECT_TRUE(remove(alice, id).has_value());
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 80);
  EXPECT_EQ(service->stats().sessions, 0);
}

TEST_F(systems, tokenizes_and_renders) {
  start();
  const auto tokenized = wait<std::vector<token_id>>([&](auto done) {
    service->tokenize({"ab", true, false}, std::move(done));
  });
  EXPECT_EQ(tokenized, (std::vector<token_id>{256, 'a', 'b'}));
  EXPECT_EQ(wait<std::string>([&](auto done) { service->detokenize({256, 'a'}, std::move(done)); }), "<s>a");
  const auto bad = wait<std::string>([&](auto done) { service->detokenize({-1}, std::move(done)); });
  EXPECT_EQ(bad.error().code, "invalid_request");
  const chat_prompt chat{chat::array{chat::object{{"content", "hi"}}}, {}, {}, true};
  const auto rendered = wait<kvern::service::rendered>([&](auto done) { service->render(chat, std::move(done)); });
  ASSERT_TRUE(rendered);
  EXPECT_EQ(rendered->text, "<|user|>hi");
  EXPECT_EQ(service->model().id, "scripted");
}

TEST_F(systems, knows_the_bytes_of_tokens) {
  vocabulary->pieces = {" \xF0\x9F"};
  start();
  EXPECT_EQ(service->token_bytes('a'), "a");
  EXPECT_EQ(service->token_bytes(0xC3), "\xC3");
  EXPECT_EQ(service->token_bytes(test::byte_tokenizer::first_piece), " \xF0\x9F");
  EXPECT_EQ(service->token_bytes(test::byte_tokenizer::eos_id), "</s>");
  EXPECT_EQ(service->token_bytes(-1), "");
  EXPECT_EQ(service->token_bytes(1 << 30), "");
}

TEST_F(systems, a_caller_that_throws_harms_nobody) {
  answer("x");
  start();
  service->create_session(alice, {}, [](auto) { throw std::runtime_error("caller"); });
  service->detokenize({'a'}, [](auto) { throw std::runtime_error("caller"); });
  EXPECT_EQ(run(ask("p"))->text(), "x");
}

}  // namespace
}  // namespace kvern::actors
