#include "actors/supervisor.hpp"

#include <gtest/gtest.h>

#include "actors/session.hpp"
#include "actors/test_service.hpp"

namespace kvern::actors {
namespace {

struct supervisors : test::service_fixture {};

TEST_F(supervisors, a_dead_worker_ends_what_runs_refuses_what_comes_and_shows_in_the_status) {
  answer_without_end();
  script->max_running = 2;
  start();
  const auto id = new_session();
  auto named = begin(ask("p", id));
  auto anonymous = begin(ask("q"));
  ASSERT_TRUE(named->wait_for<text_event>());
  ASSERT_TRUE(anonymous->wait_for<text_event>());
  script->hold();
  auto queued = begin(ask("r"));
  script->set([](auto& s) { s.fails = true; });

  for (auto* r : {&named, &anonymous, &queued}) {
    ASSERT_TRUE((*r)->wait_finished());
    EXPECT_TRUE((*r)->in_order());
  }
  EXPECT_EQ(named->get<end_event>().reason, gpu::finish_reason::failed);
  EXPECT_EQ(named->get<end_event>().why.code, "worker_failed");
  EXPECT_NE(named->get<end_event>().why.message.find("scripted failure"), std::string::npos);
  EXPECT_EQ(anonymous->get<end_event>().why.code, "worker_failed");
  EXPECT_EQ(queued->get<refused_event>().why.code, "worker_failed");

  EXPECT_FALSE(service->stats().worker_alive);
  EXPECT_EQ(run(ask("s"))->get<refused_event>().why.code, "worker_failed");
  EXPECT_EQ(run(ask("s", id))->get<refused_event>().why.code, "worker_failed");
  const auto created = wait<session_info>([&](auto done) { service->create_session(alice, {}, std::move(done)); });
  EXPECT_EQ(created.error().code, "worker_failed");
  // What needs no worker still answers.
  EXPECT_FALSE(get(id).running);
  EXPECT_EQ(get(id).tokens, 1 + static_cast<std::int64_t>(named->generated().size()));
  EXPECT_TRUE(wait<std::string>([&](auto done) { service->detokenize({'a'}, std::move(done)); }).has_value());
  EXPECT_TRUE(script->wait([](auto& s) { return s.destroyed; }));
}

TEST_F(supervisors, a_worker_that_dies_during_a_long_prompt_refuses_it) {
  std::promise<void> may_go;
  vocabulary->on_encode = [gate = may_go.get_future().share()](std::string_view text) {
    if (text.size() > session::long_prompt) gate.wait();
  };
  answer("x");
  start();
  auto waiting = begin(ask(std::string(session::long_prompt + 1, 'l')));
  script->set([](auto& s) { s.fails = true; });
  auto last = begin(ask("p"));
  ASSERT_TRUE(last->wait_finished());
  ASSERT_TRUE(waiting->wait_finished());
  EXPECT_EQ(waiting->get<refused_event>().why.code, "worker_failed");
  may_go.set_value();
}

TEST_F(supervisors, the_service_can_be_destroyed_after_its_worker_died) {
  start();
  script->set([](auto& s) { s.fails = true; });
  auto r = begin(ask("p"));
  ASSERT_TRUE(r->wait_finished());
  service->shut_down(test::limit);
  service.reset();
  EXPECT_EQ(r->get<refused_event>().why.code, "worker_failed");
}

}  // namespace
}  // namespace kvern::actors
