#include "actors/gpu_worker.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "actors/test_service.hpp"

namespace kvern::actors {
namespace {

struct gpu_workers : test::service_fixture {};

TEST_F(gpu_workers, decodes_on_its_own_between_messages) {
  answer(std::string(500, 'a'));
  start();
  EXPECT_EQ(run(ask("p"))->text(), std::string(500, 'a'));
  EXPECT_EQ(script->steps, 501);
}

TEST_F(gpu_workers, a_cancellation_takes_effect_with_the_next_step) {
  answer_without_end();
  start();
  const auto id = new_session();
  auto r = begin_held(ask("p", id));
  script->allow(1);
  ASSERT_TRUE(script->wait([](auto& s) { return s.arrived == 2; }));
  ASSERT_TRUE(r->wait_text("a"));
  r.handle->cancel();
  // The answer comes when the session has passed the cancellation on, so it lies before the worker's next step.
  ASSERT_TRUE(cancel(alice, id));
  script->allow(1);
  ASSERT_TRUE(script->wait([](auto& s) { return s.arrived == 3; }));
  EXPECT_EQ(script->turns, 0);
  script->allow(1);
  ASSERT_TRUE(r->wait_finished());
  EXPECT_EQ(script->steps, 3);
  EXPECT_EQ(r->text(), "a");
}

TEST_F(gpu_workers, status_never_waits_for_a_step) {
  answer("ab");
  start();
  auto r = begin_held(ask("p"));
  auto stats = service->stats();
  EXPECT_EQ(stats.engine.steps, 0u);
  EXPECT_EQ(stats.engine.running, 1);
  EXPECT_TRUE(stats.worker_alive);
  const auto age = stats.heartbeat_age_seconds;
  EXPECT_GT(service->stats().heartbeat_age_seconds, age);
  EXPECT_EQ(stats.backend.kernels, "scripted");
  EXPECT_EQ(stats.cache.kv_type, "f16");
  EXPECT_EQ(stats.threads, 3);
  script->go();
  ASSERT_TRUE(r->wait_finished());
  ASSERT_TRUE(script->wait([](auto& s) { return s.sequences == 0; }));
}

TEST_F(gpu_workers, an_idle_worker_shows_life) {
  start();
  double last = 0;
  // The age falls only when the heart beats.
  for (int beats = 0; beats < 2;) {
    const auto age = service->stats().heartbeat_age_seconds;
    if (age < last) ++beats;
    last = age;
    ASSERT_LT(age, 60);
    std::this_thread::yield();
  }
}

TEST_F(gpu_workers, a_full_queue_is_refused) {
  answer_without_end();
  script->max_queued = 2;
  start();
  auto a = begin(ask("p"));
  auto b = begin(ask("p"));
  ASSERT_TRUE(a->wait_for<text_event>());
  ASSERT_TRUE(b->wait_for<text_event>());
  EXPECT_EQ(run(ask("p"))->get<refused_event>().why.code, "queue_full");
  a.handle.reset();
  ASSERT_TRUE(a->wait_finished());
  auto c = begin(ask("p"));
  EXPECT_TRUE(c->wait_for<text_event>());
}

}  // namespace
}  // namespace kvern::actors
