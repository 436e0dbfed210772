#include "gpu/engine/engine.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "gpu/engine/engine_test_support.hpp"

namespace kvern::gpu {
namespace {

TEST(Engine, AnswersAsTheModelAloneWould) {
  harness h;
  h.submit(h.make(1, 1, "a", {1, 2, 3}, 5));
  h.run();
  EXPECT_EQ(h.tokens(1), h.reference({1, 2, 3}, 5));
  EXPECT_EQ(h.ended(1).reason, finish_reason::length);
  EXPECT_EQ(h.ended(1).committed, 3 + 4);  // the last token has no line
  EXPECT_TRUE(h.e->idle());
}

TEST(Engine, TellsInOrder) {
  harness h({}, {.max_chunk = 10});
  h.submit(h.make(1, 1, "a", h.prompt(25), 2));
  h.run();
  std::vector<std::string> kinds;
  for (const turn_output& o : h.outputs) kinds.push_back(kind(o));
  EXPECT_EQ(kinds, (std::vector<std::string>{"started 0", "progress 10/25", "progress 20/25", "progress 25/25", "token",
                                             "token", "ended"}));
}

TEST(Engine, KeepsThePrefixAndComputesTheRest) {
  harness h;
  h.submit(h.make(1, 1, "a", h.prompt(40), 3));
  h.run();
  auto second = h.prompt(40);
  for (const token_id t : h.tokens(1)) second.push_back(t);
  second.push_back(7);
  turn t = h.make(2, 1, "a", second, 3);
  t.keep = 42;
  h.submit(t);
  h.run();
  EXPECT_EQ(h.started(2).reused, 42);
  EXPECT_EQ(h.tokens(2), h.reference(second, 3));
  EXPECT_EQ(h.e->stats().prompt_tokens, 40U + 2U);
  EXPECT_EQ(h.e->stats().reused_tokens, 42U);
}

TEST(Engine, RunsTheLastTokenAgainWhenEverythingIsCached) {
  harness h;
  for (turn_id id = 1; id <= 3; ++id) {
    turn t = h.make(id, 1, "a", h.prompt(id == 3 ? 33 : 64), 4);
    t.keep = 1000;
    h.submit(t);
    h.run();
    EXPECT_EQ(h.tokens(id), h.reference(h.prompt(id == 3 ? 33 : 64), 4));
  }
  EXPECT_EQ(h.started(2).reused, 63);
  EXPECT_EQ(h.started(3).reused, 32);
}

TEST(Engine, NeverKeepsAnotherContext) {
  harness h;
  h.submit(h.make(1, 1, "a", h.prompt(50), 3));
  h.run();
  auto other = h.prompt(50);
  other[20] = (other[20] + 1) % 64;
  turn t = h.make(2, 1, "a", other, 3);
  t.keep = 50;  // the caller is wrong
  h.submit(t);
  h.run();
  EXPECT_EQ(h.started(2).reused, 20);
  EXPECT_EQ(h.tokens(2), h.reference(other, 3));
}

TEST(Engine, RefusesWhatCannotRun) {
  harness h({.context = 128, .pages = 64}, {.max_queued_per_tenant = 2});
  const auto code = [&](turn t) { return h.e->submit(std::move(t)).error().code; };
  EXPECT_EQ(code(h.make(1, 1, "a", {}, 1)), "invalid_request");
  EXPECT_EQ(code(h.make(1, 1, "a", {64}, 1)), "invalid_request");
  EXPECT_EQ(code(h.make(1, 1, "a", {-1}, 1)), "invalid_request");
  EXPECT_EQ(code(h.make(1, 1, "a", {1}, -2)), "invalid_request");
  EXPECT_EQ(code(h.make(1, 1, "a", h.prompt(128), 1)), "context_length_exceeded");
  const auto long_prompt = h.e->submit(h.make(1, 1, "a", h.prompt(200), 1)).error();
  EXPECT_NE(long_prompt.message.find("context of 128 tokens"), std::string::npos);
  EXPECT_NE(long_prompt.message.find("prompt has 200 tokens"), std::string::npos);
  turn t = h.make(1, 1, "a", {1}, 1);
  t.logprobs = 21;
  EXPECT_EQ(code(t), "invalid_request");
  t = h.make(1, 1, "a", {1}, 1);
  t.keep = -1;
  EXPECT_EQ(code(t), "invalid_request");
  t = h.make(1, 1, "a", {1}, 1);
  t.sampling.logit_bias = {{191222, -100.0}};
  EXPECT_EQ(code(t), "invalid_request");
  t = h.make(1, 1, "a", {1}, 1);
  t.sampling.temperature = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(code(t), "invalid_request");
  EXPECT_EQ(h.e->stats().sequences, 0);

  h.submit(h.make(1, 1, "a", {1}, 1));
  EXPECT_EQ(code(h.make(1, 2, "a", {1}, 1)), "invalid_request");  // turn id in use
  EXPECT_EQ(code(h.make(2, 1, "a", {1}, 1)), "busy");
  EXPECT_EQ(code(h.make(2, 1, "b", {1}, 1)), "invalid_request");  // another tenant's sequence
  h.submit(h.make(2, 2, "a", {1}, 1));
  EXPECT_EQ(code(h.make(3, 3, "a", {1}, 1)), "queue_full");
  h.submit(h.make(3, 3, "b", {1}, 1));  // another tenant's queue
  h.run();
}

TEST(Engine, ThePoolLimitsTheContext) {
  harness h({.context = 512, .pages = 2}, {});
  EXPECT_EQ(h.e->submit(h.make(1, 1, "a", h.prompt(64), 1)).error().code, "context_length_exceeded");
  h.submit(h.make(1, 1, "a", h.prompt(60), -1));
  h.run();
  EXPECT_EQ(h.tokens(1).size(), 4U);
  EXPECT_EQ(h.ended(1).reason, finish_reason::length);
}

TEST(Engine, RefusesOptionsOutOfRange) {
  const auto code = [](engine_options o) {
    return engine::create(std::make_unique<fake_backend>(fake_backend::shape{}), std::move(o)).error().code;
  };
  EXPECT_EQ(code({.max_running = 0}), "invalid_options");
  EXPECT_EQ(code({.max_queued_per_tenant = 0}), "invalid_options");
  EXPECT_EQ(code({.max_step_ms = 0}), "invalid_options");
  EXPECT_EQ(code({.max_chunk = 0}), "invalid_options");
  EXPECT_EQ(code({.weights = {{"a", -1.0}}}), "invalid_options");
  EXPECT_EQ(engine::create(nullptr, {}).error().code, "invalid_options");
}

TEST(Engine, CancelledInTheQueueNeverStarts) {
  harness h;
  h.submit(h.make(1, 1, "a", h.prompt(10), 3));
  h.e->cancel(1);
  h.e->cancel(99);
  EXPECT_FALSE(h.e->idle());
  h.run();
  EXPECT_EQ(h.backend->forwards(), 0U);
  ASSERT_EQ(h.outputs.size(), 1U);
  EXPECT_EQ(h.ended(1).reason, finish_reason::cancelled);
  EXPECT_EQ(h.ended(1).committed, 0);
}

TEST(Engine, CancelledInTheQueueLeavesTheCacheAsItWas) {
  harness h;
  h.submit(h.make(1, 1, "a", h.prompt(40), 3));
  h.run();
  h.submit(h.make(2, 1, "a", {5, 5}, 3));
  h.e->cancel(2);
  h.run();
  EXPECT_EQ(h.ended(2).committed, 42);
  turn t = h.make(3, 1, "a", h.prompt(40), 3);
  t.keep = 40;
  h.submit(t);
  h.run();
  EXPECT_EQ(h.started(3).reused, 39);
  EXPECT_EQ(h.tokens(3), h.reference(h.prompt(40), 3));
}

TEST(Engine, CancelFreesTheSlotWithinOneStep) {
  harness h({}, {.max_running = 1});
  h.submit(h.make(1, 1, "a", h.prompt(10), -1));
  h.submit(h.make(2, 2, "a", h.prompt(5), 2));
  h.step();
  h.step();
  EXPECT_EQ(h.e->stats().running, 1);
  h.e->cancel(1);
  h.step();
  EXPECT_EQ(h.ended(1).reason, finish_reason::cancelled);
  EXPECT_EQ(h.tokens(2).size(), 1U);
  EXPECT_EQ(h.ended(1).committed, 10 + 1);
  h.run();
}

TEST(Engine, CancelInFlightDropsItsLines) {
  harness h;
  h.submit(h.make(1, 1, "a", h.prompt(10), -1));
  h.submit(h.make(2, 2, "a", h.prompt(12), 6));
  h.step();
  h.step();
  h.backend->on_forward = [&](const step&) -> result<void> {
    h.e->cancel(1);
    return {};
  };
  h.step();
  h.backend->on_forward = nullptr;
  EXPECT_EQ(h.rows, 2);
  EXPECT_EQ(h.accepted, 1);
  EXPECT_EQ(h.ended(1).reason, finish_reason::cancelled);
  EXPECT_EQ(h.tokens(1).size(), 2U);
  EXPECT_EQ(h.ended(1).committed, 11);
  h.run();
  EXPECT_EQ(h.tokens(2), h.reference(h.prompt(12), 6));
}

TEST(Engine, ReleaseFreesPagesAndEndsTheTurn) {
  harness h;
  h.warm_up();
  h.submit(h.make(1, 1, "a", h.prompt(70), -1));
  h.step();
  const std::int32_t cached = 1;  // the warm-up's
  EXPECT_EQ(h.e->stats().pages_used, cached + 3);
  h.e->release(1);
  h.e->release(1);
  EXPECT_EQ(h.e->stats().pages_used, cached + 2) << "the full pages of the prompt stay for whoever begins like it";
  EXPECT_EQ(h.e->stats().sequences, 0);
  h.run();
  EXPECT_EQ(h.ended(1).reason, finish_reason::cancelled);
}

TEST(Engine, ReleaseInFlightWaitsForTheStep) {
  harness h;
  h.submit(h.make(1, 1, "a", h.prompt(70), -1));
  h.backend->on_forward = [&](const step&) -> result<void> {
    h.e->release(1);
    return {};
  };
  h.step();
  EXPECT_EQ(h.ended(1).reason, finish_reason::cancelled);
  EXPECT_EQ(h.e->stats().pages_used, 0);
  EXPECT_EQ(h.e->stats().sequences, 0);
}

TEST(Engine, CountsTimeByItsClock) {
  harness h({}, {.max_chunk = 8});
  h.submit(h.make(1, 1, "a", h.prompt(16), 3));
  h.advance(7);
  h.run();
  EXPECT_NEAR(h.ended(1).queued_ms, 7, 1e-6);
  EXPECT_NEAR(h.ended(1).prompt_ms, 2 * h.cost(8), 1e-6);
  EXPECT_NEAR(h.ended(1).generate_ms, 2 * h.cost(1), 1e-6);
  EXPECT_NEAR(h.e->stats().backend_seconds, (2 * h.cost(8) + 2 * h.cost(1)) / 1e3, 1e-9);
  EXPECT_NEAR(h.e->stats().step_seconds, h.e->stats().backend_seconds, 1e-9);
  EXPECT_EQ(h.e->stats().between_seconds, 0) << "the wait before the first step is nobody's";
  h.submit(h.make(2, 1, "a", h.prompt(16), 2));
  h.step();
  h.advance(3);
  h.run();
  h.advance(5);
  h.submit(h.make(3, 1, "a", h.prompt(16), 1));
  h.run();
  EXPECT_NEAR(h.e->stats().between_seconds, 0.003, 1e-9);
}

}  // namespace
}  // namespace kvern::gpu
