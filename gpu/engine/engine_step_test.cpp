#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <new>
#include <numeric>
#include <vector>

#include "gpu/engine/engine_test_support.hpp"

namespace kvern::gpu {
namespace {

TEST(EngineStep, ServesSeveralTurnsInOneForward) {
  harness h;
  h.warm_up();
  const auto before = h.backend->forwards();
  for (turn_id id = 1; id <= 5; ++id) h.submit(h.make(id, id, id % 2 == 0 ? "a" : "b", h.prompt(10 * id, id), 4));
  h.step();
  EXPECT_EQ(h.backend->forwards(), before + 1);
  EXPECT_EQ(h.rows, 150);
  h.run();
  EXPECT_EQ(h.backend->forwards(), before + 4);
  for (turn_id id = 1; id <= 5; ++id) EXPECT_EQ(h.tokens(id), h.reference(h.prompt(10 * id, id), 4));
}

TEST(EngineStep, ChunksDoNotChangeTheAnswer) {
  for (const std::int32_t chunk : {1, 7, 31, 32, 33, 64, 1000}) {
    harness h({}, {.max_chunk = chunk});
    h.submit(h.make(1, 1, "a", h.prompt(100), 40));
    h.run();
    EXPECT_EQ(h.tokens(1), h.reference(h.prompt(100), 40)) << chunk;
  }
}

TEST(EngineStep, MaxTokensZeroComputesThePromptOnly) {
  harness h;
  h.submit(h.make(1, 1, "a", h.prompt(40), 0));
  h.run();
  EXPECT_TRUE(h.tokens(1).empty());
  EXPECT_EQ(h.ended(1).reason, finish_reason::length);
  EXPECT_EQ(h.ended(1).committed, 40);
  turn t = h.make(2, 1, "a", h.prompt(41), 3);
  t.keep = 40;
  h.submit(t);
  h.run();
  EXPECT_EQ(h.started(2).reused, 40);
  EXPECT_EQ(h.tokens(2), h.reference(h.prompt(41), 3));
}

TEST(EngineStep, TheContextEndsAnAnswer) {
  for (const std::int64_t max_tokens : {std::int64_t{-1}, std::int64_t{1} << 60}) {
    harness h({.context = 70});
    turn t = h.make(1, 1, "a", h.prompt(60), max_tokens);
    t.overflow = overflow_policy::stop;
    h.submit(t);
    h.run();
    EXPECT_EQ(h.tokens(1), h.reference(h.prompt(60), 10));
    EXPECT_EQ(h.ended(1).reason, finish_reason::length);
    EXPECT_TRUE(h.ended(1).context_full);
    EXPECT_EQ(h.ended(1).committed, 69);
  }
}

TEST(EngineStep, AnEndTokenIsSentAndEndsTheTurn) {
  const harness plain;
  const auto expected = plain.reference(plain.prompt(12), 12);
  const token_id end = expected[5];
  const auto first = std::find(expected.begin(), expected.end(), end) - expected.begin();
  harness h({}, {.is_end = [end](token_id t) { return t == end; }});
  h.submit(h.make(1, 1, "a", h.prompt(12), 12));
  turn through = h.make(2, 2, "a", h.prompt(12), 12);
  through.ignore_eos = true;
  h.submit(through);
  h.run();
  EXPECT_EQ(h.tokens(1), std::vector<token_id>(expected.begin(), expected.begin() + first + 1));
  EXPECT_TRUE(h.all<turn_token>(1).back().end_of_generation);
  EXPECT_EQ(h.ended(1).reason, finish_reason::stop);
  EXPECT_EQ(h.ended(1).committed, 12 + first);  // the end token has no line
  EXPECT_EQ(h.tokens(2), expected);
  EXPECT_TRUE(h.all<turn_token>(2)[static_cast<std::size_t>(first)].end_of_generation);
  EXPECT_EQ(h.ended(2).reason, finish_reason::length);
}

TEST(EngineStep, LogProbabilitiesAreOfTheLogitsAsGiven) {
  harness h;
  turn t = h.make(1, 1, "a", h.prompt(9), 1);
  t.logprobs = 3;
  t.sampling.logit_bias = {{5, 100.0}};
  h.submit(t);
  h.submit(h.make(2, 2, "a", h.prompt(9), 1));
  h.run();
  const auto logits = fake_backend::logits_of(fake_backend::state_of(h.prompt(9)), h.vocab);
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x));
  const turn_token token = h.all<turn_token>(1).at(0);
  EXPECT_EQ(token.token, 5);
  EXPECT_NEAR(token.logprob.logprob, logits[5] - std::log(sum), 1e-9);
  ASSERT_EQ(token.logprob.alternatives.size(), 3U);
  EXPECT_EQ(token.logprob.alternatives[0].first, h.reference(h.prompt(9), 1)[0]);
  EXPECT_TRUE(h.all<turn_token>(2).at(0).logprob.alternatives.empty());
}

TEST(EngineStep, ARowWithoutFiniteLogitsFailsItsTurnAlone) {
  harness h;
  h.submit(h.make(1, 1, "a", h.prompt(10), 8));
  h.submit(h.make(2, 2, "a", h.prompt(11), 8));
  h.step();
  h.step();
  const std::uint64_t bad = [&] {
    auto tokens = h.prompt(10);
    for (const token_id t : h.tokens(1)) tokens.push_back(t);
    return fake_backend::state_of(tokens);
  }();
  h.backend->nan_row = [bad](const step&, std::size_t, std::uint64_t state) { return state == bad; };
  h.step();
  EXPECT_EQ(h.rows, 2);
  EXPECT_EQ(h.accepted, 1);
  h.run();
  EXPECT_EQ(h.ended(1).reason, finish_reason::failed);
  EXPECT_EQ(h.ended(1).why.code, "no_finite_logit");
  EXPECT_EQ(h.tokens(1).size(), 2U);
  EXPECT_EQ(h.ended(1).committed, 11);  // the failed row's line was dropped
  EXPECT_EQ(h.tokens(2), h.reference(h.prompt(11), 8));
  EXPECT_EQ(h.e->stats().failed_turns, 1U);

  h.backend->nan_row = nullptr;
  turn again = h.make(3, 1, "a", h.prompt(10), 8);
  again.keep = 10;
  h.submit(again);
  h.run();
  EXPECT_EQ(h.tokens(3), h.reference(h.prompt(10), 8));
}

TEST(EngineStep, ATurnThatFindsNoMemoryForItsTokenFailsAlone) {
  harness h;
  h.submit(h.make(1, 1, "a", h.prompt(10), 8));
  h.submit(h.make(2, 2, "a", h.prompt(11), 8));
  h.step();
  h.backend->on_logits = [](std::size_t row) {
    if (row == 0) throw std::bad_alloc();
  };
  h.step();
  h.backend->on_logits = nullptr;
  h.run();
  EXPECT_EQ(h.ended(1).reason, finish_reason::failed);
  EXPECT_EQ(h.ended(1).why.code, "out_of_memory");
  EXPECT_FALSE(h.ended(1).why.message.empty());
  EXPECT_EQ(h.tokens(1).size(), 1U);
  EXPECT_EQ(h.ended(1).committed, 10);
  EXPECT_EQ(h.tokens(2), h.reference(h.prompt(11), 8));
}

TEST(EngineStep, AFailedForwardFailsTheTurnsOfItsStepAndNoOthers) {
  harness h({.max_rows = 30}, {.max_chunk = 30});
  h.submit(h.make(1, 1, "a", h.prompt(30), 3));
  h.submit(h.make(2, 2, "a", h.prompt(20), 3));
  h.backend->on_forward = [](const step&) { return fail("device_lost", "gone"); };
  h.step();
  h.backend->on_forward = nullptr;
  EXPECT_EQ(h.ended(1).reason, finish_reason::failed);
  EXPECT_EQ(h.ended(1).why.code, "device_lost");
  EXPECT_EQ(h.ended(1).committed, 0);
  EXPECT_EQ(h.e->stats().pages_used, 0);
  h.run();
  EXPECT_EQ(h.tokens(2), h.reference(h.prompt(20), 3));
}

TEST(EngineStep, AFailedFinalizeCommitsAndTellsNothing) {
  harness h;
  h.submit(h.make(1, 1, "a", h.prompt(30), 3));
  h.backend->on_finalize = [](std::span<const std::int32_t>) { return fail("page_out_of_range", "test"); };
  h.step();
  EXPECT_TRUE(h.tokens(1).empty());
  EXPECT_EQ(h.ended(1).why.code, "page_out_of_range");
  EXPECT_EQ(h.ended(1).committed, 0);
}

TEST(EngineStep, PagesOfAnotherTenantAreClearedFirst) {
  harness h({.pages = 4, .max_rows = 128});
  h.submit(h.make(1, 1, "a", h.prompt(100), 1));
  h.run();
  h.e->release(1);
  int cleared = 0;
  h.backend->on_clear = [&](std::span<const page_id> pages) -> result<void> {
    cleared += static_cast<int>(pages.size());
    return {};
  };
  h.backend->on_forward = [&](const step& s) -> result<void> {
    for (const page_id p : s.sequences[0].pages) EXPECT_TRUE(h.backend->is_clear(p));
    return {};
  };
  h.submit(h.make(2, 2, "b", h.prompt(100), 1));
  h.run();
  EXPECT_EQ(cleared, 4);
  h.e->release(2);
  h.backend->on_forward = nullptr;
  h.backend->on_clear = [](std::span<const page_id>) { return fail("device_lost", "gone"); };
  h.submit(h.make(3, 3, "a", h.prompt(50), 1));
  h.run();
  EXPECT_EQ(h.ended(3).why.code, "device_lost");
  h.backend->on_clear = nullptr;
  h.backend->on_forward = [&](const step& s) -> result<void> {
    for (const page_id p : s.sequences[0].pages) EXPECT_TRUE(h.backend->is_clear(p));
    return {};
  };
  h.submit(h.make(4, 4, "a", h.prompt(50), 1));  // pages that could not be cleared are not trusted
  h.run();
  EXPECT_EQ(h.tokens(4), h.reference(h.prompt(50), 1));
}

TEST(EngineStep, EvictsTheTailOfTheSequenceUsedLongestAgo) {
  harness h({.context = 200, .pages = 6});
  h.submit(h.make(1, 1, "a", h.prompt(96, 1), 1));
  h.run();
  h.submit(h.make(2, 2, "a", h.prompt(64, 2), 1));
  h.run();
  h.submit(h.make(3, 3, "a", h.prompt(96, 3), 1));  // one page is free, two are evicted
  h.run();
  EXPECT_EQ(h.e->stats().evicted_pages, 2U);
  EXPECT_EQ(h.e->describe(1)->reusable, 32);
  EXPECT_EQ(h.e->describe(2)->reusable, 64);
  EXPECT_EQ(h.e->describe(3)->reusable, 96);
  turn t = h.make(4, 1, "a", h.prompt(96, 1), 2);
  t.keep = 96;
  h.submit(t);
  h.run();
  EXPECT_EQ(h.started(4).reused, 32);
  EXPECT_EQ(h.tokens(4), h.reference(t.prompt, 2));
}

TEST(EngineStep, APreemptedTurnGoesOnWhereItWas) {
  harness h({.context = 192, .pages = 8});
  std::vector<turn> turns;
  for (turn_id id = 1; id <= 3; ++id) {
    turn t = h.make(id, id, "a", h.prompt(40, id), 120);
    t.sampling.temperature = 0.8;
    t.sampling.seed = id;
    t.sampling.repetition_penalty = 1.2;
    turns.push_back(t);
    h.submit(t);
  }
  h.run();
  EXPECT_GT(h.e->stats().preempted_turns, 0U);
  for (const turn& t : turns) {
    harness alone;
    turn copy = t;
    alone.submit(copy);
    alone.run();
    EXPECT_EQ(h.tokens(t.id), alone.tokens(t.id));
    EXPECT_EQ(h.all<turn_started>(t.id).size(), 1U);
    EXPECT_EQ(h.ended(t.id).committed, 159);
  }
}

TEST(EngineStep, TenantsWithBacklogsAreServedAlike) {
  constexpr std::int32_t chunk = 64;
  harness h({.context = 2048, .pages = 1000, .max_rows = 128},
            {.max_running = 8, .max_chunk = chunk, .weights = {{"c", 2.0}}});
  turn_id id = 0;
  std::map<turn_id, std::string> owner;
  std::map<std::string, int> backlog{{"a", 1}, {"b", 50}, {"c", 5}};
  const auto refill = [&] {
    for (const auto& [tenant, depth] : backlog) {
      const auto t = h.e->tenants().find(tenant);
      const auto have = t == h.e->tenants().end() ? 0 : static_cast<int>(t->second.turns.size());
      for (int i = have; i < depth; ++i) {
        ++id;
        owner[id] = tenant;
        h.submit(h.make(id, id, tenant, h.prompt(100 + id * 37 % 900, id), 0));
      }
    }
  };
  for (int i = 0; i < 500; ++i) {
    refill();
    h.step();
    const auto& t = h.e->tenants();
    const double a = t.at("a").service;
    EXPECT_NEAR(t.at("b").service, a, chunk) << i;
    EXPECT_NEAR(t.at("c").service, a, chunk) << i;
  }
  // Service is what the clients saw, too: progress by tenant.
  std::map<std::string, std::int64_t> computed;
  std::map<turn_id, std::int64_t> last;
  for (const turn_output& o : h.outputs)
    if (const auto* p = std::get_if<turn_progress>(&o.what))
      computed[owner[o.id]] += p->processed - std::exchange(last[o.id], p->processed);
  EXPECT_NEAR(static_cast<double>(computed["b"]), static_cast<double>(computed["a"]), chunk);
  EXPECT_NEAR(static_cast<double>(computed["c"]), 2.0 * static_cast<double>(computed["a"]), 3 * chunk);
}

TEST(EngineStep, ATenantThatReturnsHasNoCredit) {
  harness h({.context = 4096, .pages = 1000, .max_rows = 64}, {.max_chunk = 32});
  h.submit(h.make(1, 1, "b", h.prompt(10), 0));
  h.run();
  h.submit(h.make(2, 2, "a", h.prompt(3200), 0));
  for (int i = 0; i < 50; ++i) h.step();
  h.submit(h.make(3, 3, "b", h.prompt(3200), 0));
  h.step();
  EXPECT_NEAR(h.e->tenants().at("a").service, h.e->tenants().at("b").service, 64);
}

TEST(EngineStep, FullSlotsAreShared) {
  harness h({.context = 512, .pages = 600}, {.max_running = 8, .max_queued_per_tenant = 50});
  for (turn_id id = 1; id <= 20; ++id) h.submit(h.make(id, id, "a", h.prompt(5, id), 300));
  for (int i = 0; i < 5; ++i) h.step();
  h.submit(h.make(100, 100, "b", h.prompt(5, 100), 20));
  int steps = 0;
  while (h.tokens(100).empty() && steps < 100) {
    h.step();
    ++steps;
  }
  EXPECT_LT(steps, 20);
  h.run();
  EXPECT_EQ(h.tokens(100), h.reference(h.prompt(5, 100), 20));
  for (turn_id id = 1; id <= 20; ++id) EXPECT_EQ(h.tokens(id), h.reference(h.prompt(5, id), 300));
}

}  // namespace
}  // namespace kvern::gpu
