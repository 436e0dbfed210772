#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "gpu/engine/engine_test_support.hpp"

namespace kvern::gpu {
namespace {

constexpr token_id end_token = 9;

/// A model whose likeliest token is `said(position)`, by `margin` over what the lines before it make of the others.
struct copying : harness {
  explicit copying(std::function<token_id(std::int32_t)> said, engine_options options = {},
                   fake_backend::shape shape = {}, float margin = 17)
      : harness(std::move(shape), with_end(std::move(options))) {
    backend->change_logits = [said, margin](const gpu::step& s, std::size_t row, std::span<float> logits) {
      logits[static_cast<std::size_t>(said(s.rows[row].position + 1))] += margin;
    };
  }
  static engine_options with_end(engine_options o) {
    o.is_end = [](token_id t) { return t == end_token; };
    return o;
  }
};

token_id period_of_ten(std::int32_t position) { return 20 + position % 10; }

turn with_lookup(turn t, std::optional<bool> wanted) {
  t.prompt_lookup = wanted;
  return t;
}

std::vector<token_id> plain_prompt(std::size_t size) {
  std::vector<token_id> out;
  for (std::size_t i = 0; i < size; ++i) out.push_back(period_of_ten(static_cast<std::int32_t>(i)));
  return out;
}

struct answer {
  std::vector<token_id> tokens;
  std::vector<token_logprob> logprobs;
  turn_ended end;
  std::uint64_t steps = 0;
};

answer ask(copying& h, turn t) {
  const turn_id id = t.id;
  const std::uint64_t before = h.e->stats().steps;
  h.submit(std::move(t));
  h.run();
  answer out{h.tokens(id), {}, h.ended(id), h.e->stats().steps - before};
  std::int64_t guessed = 0;
  for (const turn_token& token : h.all<turn_token>(id)) {
    out.logprobs.push_back(token.logprob);
    guessed += token.guessed ? 1 : 0;
  }
  EXPECT_EQ(guessed, out.end.accepted);
  return out;
}

void expect_same(const answer& a, const answer& b) {
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.end.reason, b.end.reason);
  EXPECT_EQ(a.end.committed, b.end.committed);
  ASSERT_EQ(a.logprobs.size(), b.logprobs.size());
  for (std::size_t i = 0; i < a.logprobs.size(); ++i) {
    EXPECT_EQ(a.logprobs[i].logprob, b.logprobs[i].logprob) << i;
    EXPECT_EQ(a.logprobs[i].alternatives, b.logprobs[i].alternatives) << i;
  }
}

TEST(EngineDrafts, SaySeveralTokensInAStep) {
  copying h(period_of_ten, {.prompt_lookup = prompt_lookup_mode::on});
  h.warm_up();
  turn t = h.make(1, 1, "a", plain_prompt(40), 100);
  t.logprobs = 3;
  const answer on = ask(h, with_lookup(t, true));
  t.id = t.sequence = 2;
  const answer off = ask(h, with_lookup(t, false));
  expect_same(on, off);
  EXPECT_EQ(on.tokens.size(), 100U);
  EXPECT_EQ(on.tokens.front(), period_of_ten(40));
  EXPECT_EQ(off.steps, 100U);
  EXPECT_LT(on.steps, 25U);
  EXPECT_EQ(off.end.drafted, 0);
  EXPECT_EQ(on.end.accepted, on.end.drafted);
  EXPECT_EQ(on.end.accepted + static_cast<std::int64_t>(on.steps), 100);
  EXPECT_EQ(h.e->stats().accepted_tokens, static_cast<std::uint64_t>(on.end.accepted));
  EXPECT_EQ(h.e->stats().drafted_tokens, static_cast<std::uint64_t>(on.end.drafted));
  EXPECT_EQ(h.e->stats().generated_tokens, 201U) << "with the one that warmed up";
}

TEST(EngineDrafts, AreMadeAsTheOptionsSayUnlessATurnDoes) {
  for (const prompt_lookup_mode mode : {prompt_lookup_mode::off, prompt_lookup_mode::automatic, prompt_lookup_mode::on})
    for (const std::optional<bool> wanted : {std::optional<bool>(), std::optional(false), std::optional(true)}) {
      copying h(period_of_ten, {.prompt_lookup = mode});
      const answer a = ask(h, with_lookup(h.make(1, 1, "a", plain_prompt(40), 60), wanted));
      EXPECT_EQ(a.end.drafted > 0, wanted.value_or(mode != prompt_lookup_mode::off));
      EXPECT_EQ(a.tokens.size(), 60U);
    }
}

TEST(EngineDrafts, AreDroppedWhereTheyAreWrong) {
  // Something new at every seventh position.
  const auto said = [](std::int32_t p) { return p % 7 == 3 ? static_cast<token_id>(p * p % 60) : period_of_ten(p); };
  copying h(said, {.prompt_lookup = prompt_lookup_mode::on});
  turn t = h.make(1, 1, "a", plain_prompt(40), 150);
  t.ignore_eos = true;
  t.logprobs = 1;
  const answer on = ask(h, t);
  t.id = t.sequence = 2;
  expect_same(on, ask(h, with_lookup(t, false)));
  EXPECT_GT(on.end.accepted, 0);
  EXPECT_GT(on.end.drafted, on.end.accepted);
  EXPECT_LT(on.steps, 150U);
}

TEST(EngineDrafts, DoNotChangeWhatIsDrawn) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    copying h(period_of_ten, {.prompt_lookup = prompt_lookup_mode::on}, {}, 14);
    turn t = h.make(1, 1, "a", plain_prompt(50), 120);
    t.sampling.temperature = 2.5;
    t.sampling.top_k = 0;
    t.sampling.top_p = 1;
    t.sampling.min_p = 0;
    t.sampling.seed = seed;
    if (seed % 2 == 1) t.sampling.repetition_penalty = 1.1;
    t.ignore_eos = true;
    t.logprobs = 2;
    const answer on = ask(h, t);
    t.id = t.sequence = 2;
    expect_same(on, ask(h, with_lookup(t, false)));
    EXPECT_GT(on.end.accepted, 0) << seed;
    EXPECT_GT(on.end.drafted, on.end.accepted) << seed;
  }
}

TEST(EngineDrafts, EndWhereTheAnswerDoes) {
  for (std::int64_t limit = 1; limit < 60; ++limit) {
    copying h(period_of_ten, {.prompt_lookup = prompt_lookup_mode::on});
    const answer a = ask(h, h.make(1, 1, "a", plain_prompt(40), limit));
    EXPECT_EQ(a.tokens.size(), static_cast<std::size_t>(limit));
    EXPECT_EQ(a.end.reason, finish_reason::length);
    EXPECT_EQ(a.end.committed, 40 + limit - 1);
  }
  copying full(period_of_ten, {.prompt_lookup = prompt_lookup_mode::on}, {.context = 100});
  turn t = full.make(1, 1, "a", plain_prompt(40), -1);
  t.overflow = overflow_policy::stop;
  const answer a = ask(full, t);
  EXPECT_EQ(a.tokens.size(), 60U);
  EXPECT_TRUE(a.end.context_full);
}

TEST(EngineDrafts, StopAtAnEndTokenWithinWhatIsRight) {
  // The prompt has the end token where the answer will: it is drafted, and so is what follows it.
  for (std::int32_t end = 41; end < 70; ++end) {
    const auto said = [end](std::int32_t p) { return p == end || p == end - 30 ? end_token : period_of_ten(p); };
    copying h(said, {.prompt_lookup = prompt_lookup_mode::on});
    turn t = h.make(1, 1, "a", plain_prompt(40), 100);
    t.prompt[static_cast<std::size_t>(end - 30)] = end_token;
    const answer on = ask(h, t);
    EXPECT_EQ(on.end.reason, finish_reason::stop) << end;
    EXPECT_EQ(on.tokens.size(), static_cast<std::size_t>(end - 40 + 1)) << end;
    EXPECT_EQ(on.tokens.back(), end_token);
    EXPECT_EQ(on.end.committed, end);
    t.id = t.sequence = 2;
    t.ignore_eos = true;
    const answer through = ask(h, t);
    EXPECT_EQ(through.tokens.size(), 100U);
    t.id = t.sequence = 3;
    expect_same(through, ask(h, with_lookup(t, false)));
  }
}

TEST(EngineDrafts, AreGoneWithACancelledTurn) {
  copying h(period_of_ten, {.prompt_lookup = prompt_lookup_mode::on});
  h.submit(h.make(1, 1, "a", plain_prompt(40), 200));
  while (h.tokens(1).size() < 30) h.step();
  const std::size_t had = h.tokens(1).size();
  h.backend->on_forward = [&](const gpu::step& s) -> result<void> {
    if (s.rows.size() > 1) h.e->cancel(1, 40 + 25);
    return {};
  };
  h.run();
  EXPECT_EQ(h.tokens(1).size(), had);
  EXPECT_EQ(h.ended(1).reason, finish_reason::cancelled);
  EXPECT_EQ(h.ended(1).committed, 65);
  EXPECT_EQ(h.backend->staged(), 0U);
  h.backend->on_forward = nullptr;
  // What is kept goes on as if nothing had been drafted.
  turn t = h.make(2, 1, "a", plain_prompt(70), 30);
  t.keep = 65;
  const answer again = ask(h, t);
  EXPECT_EQ(h.started(2).reused, 65);
  expect_same(again, ask(h, with_lookup(h.make(3, 3, "b", plain_prompt(70), 30), false)));
}

TEST(EngineDrafts, OfARowThatCannotBeSampledLeaveWhatWasBeforeIt) {
  copying h(period_of_ten, {.prompt_lookup = prompt_lookup_mode::on});
  h.backend->nan_row = [](const gpu::step& s, std::size_t row, std::uint64_t) { return s.rows[row].position == 77; };
  const answer a = ask(h, h.make(1, 1, "a", plain_prompt(40), 200));
  EXPECT_EQ(a.end.reason, finish_reason::failed);
  EXPECT_EQ(a.end.why.code, "no_finite_logit");
  EXPECT_EQ(a.tokens.size(), 38U) << "the tokens of positions 40 to 77";
  EXPECT_EQ(a.end.committed, 77);
}

TEST(EngineDrafts, OfSeveralTurnsShareAStep) {
  copying h(period_of_ten, {.prompt_lookup = prompt_lookup_mode::on}, {.pages = 200});
  for (turn_id id = 1; id <= 6; ++id)
    h.submit(with_lookup(h.make(id, id, id % 2 == 0 ? "a" : "b", plain_prompt(30 + id), 80), id != 3));
  const std::uint64_t before = h.e->stats().steps;
  h.run();
  for (turn_id id = 1; id <= 6; ++id) {
    std::vector<token_id> expected;
    for (std::int32_t p = 0; p < 80; ++p) expected.push_back(period_of_ten(30 + static_cast<std::int32_t>(id) + p));
    EXPECT_EQ(h.tokens(id), expected);
    EXPECT_EQ(h.ended(id).drafted > 0, id != 3);
  }
  EXPECT_LE(h.e->stats().steps - before, 81U);
}

TEST(EngineDrafts, TakeNoPageAndNoMoreRowsThanAStepMayHave) {
  copying h(period_of_ten, {.max_running = 4, .prompt_lookup = prompt_lookup_mode::on}, {.pages = 200, .max_rows = 9});
  for (turn_id id = 1; id <= 4; ++id) h.submit(h.make(id, id, "a", plain_prompt(20 + 5 * id), 70));
  for (int i = 0; i < 10000 && !h.e->idle(); ++i) {
    h.step();
    EXPECT_LE(h.rows, 9);
    for (const auto& [id, s] : h.e->sequences().all())
      EXPECT_LE(s.blocks, blocks_for(s.committed + 1)) << "a page more than the next row needs";
  }
  EXPECT_GT(h.e->stats().accepted_tokens, 0U);
}

TEST(EngineDrafts, LeaveStepsAsShortAsTheyMustBe) {
  copying h(period_of_ten, {.max_step_ms = 7, .prompt_lookup = prompt_lookup_mode::on});
  h.warm_up();
  h.submit(h.make(1, 1, "a", plain_prompt(40), 200));
  while (h.tokens(1).empty()) h.step();
  while (!h.e->idle()) {
    h.step();
    EXPECT_LE(h.rows, 12) << "a row costs 0.25 ms, and a step 5; what that is must be learned";
  }
  EXPECT_GT(h.e->stats().accepted_tokens, 50U);
}

TEST(EngineDrafts, ArePaidForByTheirTenant) {
  copying h(period_of_ten, {.prompt_lookup = prompt_lookup_mode::on});
  h.submit(h.make(1, 1, "a", plain_prompt(40), 100));
  std::int64_t rows = 0;
  while (h.tokens(1).size() < 60) {
    h.step();
    rows += h.rows;
  }
  EXPECT_EQ(h.e->tenants().at("a").service, static_cast<double>(rows));
  EXPECT_GT(h.e->stats().drafted_tokens, 0U);
}

TEST(EngineDrafts, BeginWithWhatTheLastTurnOfTheirSequenceOrTenantLearned) {
  copying h(period_of_ten, {.prompt_lookup = prompt_lookup_mode::automatic});
  h.warm_up();
  const answer first = ask(h, h.make(1, 1, "a", plain_prompt(32), 150));
  EXPECT_GT(first.end.accepted, 100);
  const answer sequence = ask(h, h.make(2, 1, "a", plain_prompt(32), 20));
  const answer tenant = ask(h, h.make(3, 3, "a", plain_prompt(32), 20));
  const answer other = ask(h, h.make(4, 4, "b", plain_prompt(32), 20));
  EXPECT_LT(sequence.steps, other.steps);
  EXPECT_LT(tenant.steps, other.steps);
  // One that drafts nothing has nothing to say of drafts.
  ask(h, with_lookup(h.make(5, 1, "a", plain_prompt(32), 20), false));
  EXPECT_EQ(ask(h, h.make(6, 1, "a", plain_prompt(32), 20)).steps, sequence.steps);
}

TEST(EngineDrafts, ServeALaterPromptLikeAnyOtherLine) {
  for (const cache_layout layout : {cache_layout::paged, cache_layout::left, cache_layout::ring}) {
    copying h(period_of_ten, {.layout = layout, .prompt_lookup = prompt_lookup_mode::on});
    EXPECT_GT(ask(h, h.make(1, 1, "a", plain_prompt(40), 100)).end.accepted, 0);
    turn t = h.make(2, 1, "a", plain_prompt(150), 40);
    t.keep = 139;
    const answer again = ask(h, t);
    EXPECT_EQ(h.started(2).reused, 139);
    expect_same(again, ask(h, with_lookup(h.make(3, 3, "b", plain_prompt(150), 40), false)));
  }
}

}  // namespace
}  // namespace kvern::gpu
