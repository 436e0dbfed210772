// What the engine's cache promises, case by case; engine_history_test.cpp has the random lives.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "gpu/engine/engine_test_support.hpp"

namespace kvern::gpu {
namespace {

turn next_turn(const harness& h, turn_id id, sequence_id s, std::vector<token_id> prompt, std::int64_t max_tokens) {
  turn t = h.make(id, s, "a", std::move(prompt), max_tokens);
  t.keep = static_cast<std::int64_t>(t.prompt.size());
  return t;
}

std::vector<token_id> joined(std::vector<token_id> a, const std::vector<token_id>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A greedy answer of a cold sequence, with windows and rotation.
std::vector<token_id> cold_answer(const fake_backend::shape& shape, const rotation& r, std::span<const token_id> prompt,
                                  std::size_t count) {
  fake_backend::alone cold(shape.windows, r);
  for (const token_id t : prompt) cold.append(t);
  std::vector<token_id> out;
  while (out.size() < count) {
    const auto logits = fake_backend::logits_of(cold.state(), shape.vocab);
    out.push_back(static_cast<token_id>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    cold.append(out.back());
  }
  return out;
}

TEST(EngineCache, ANewSequenceFindsWhatItsTenantComputed) {
  harness h;
  h.submit(h.make(1, 1, "a", h.prompt(100), 1));
  h.run();
  const std::int32_t used = h.e->stats().pages_used;
  h.submit(h.make(2, 2, "a", joined(h.prompt(96), h.prompt(10, 5)), 4));
  h.run();
  EXPECT_EQ(h.started(2).reused, 96);
  EXPECT_EQ(h.started(2).shared, 96);
  EXPECT_EQ(h.tokens(2), h.reference(joined(h.prompt(96), h.prompt(10, 5)), 4));
  EXPECT_EQ(h.e->stats().pages_used, used + 1) << "the full pages are held once";
  EXPECT_EQ(h.e->stats().pages_shared, 3);
}

TEST(EngineCache, AlsoWhileTheOtherStillRuns) {
  harness h;
  h.warm_up();
  h.submit(h.make(1, 1, "a", h.prompt(100), 50));
  while (h.tokens(1).empty()) h.step();
  h.submit(h.make(2, 2, "a", h.prompt(100), 3));
  h.run();
  EXPECT_EQ(h.started(2).shared, 96);
  EXPECT_EQ(h.tokens(2), h.reference(h.prompt(100), 3));
  EXPECT_EQ(h.tokens(1), h.reference(h.prompt(100), 50));
}

TEST(EngineCache, TwoThatComputeTheSameAtOnceHoldItOnce) {
  harness h;
  h.warm_up();
  h.submit(h.make(1, 1, "a", h.prompt(64), 2));
  h.submit(h.make(2, 2, "a", h.prompt(64), 2));
  h.run();
  EXPECT_EQ(h.e->stats().pages_shared, 2);
  EXPECT_EQ(h.tokens(1), h.reference(h.prompt(64), 2));
  EXPECT_EQ(h.tokens(2), h.tokens(1));
}

TEST(EngineCache, AnotherTenantFindsNothing) {
  harness h;
  h.submit(h.make(1, 1, "a", h.prompt(100), 1));
  h.run();
  h.submit(h.make(2, 2, "b", h.prompt(100), 1));
  h.run();
  EXPECT_EQ(h.started(2).reused, 0);
  EXPECT_EQ(h.e->stats().pages_shared, 0);
  EXPECT_EQ(h.e->estimate("b", 1, h.prompt(100)).reused, 96) << "its own cache, not the other's sequence";
}

TEST(EngineCache, TheSamePromptAgainRunsItsLastTokenOnly) {
  harness h;
  for (const std::size_t size : {1U, 31U, 32U, 33U, 64U, 100U}) {
    const turn_id id = 10 * size;
    h.submit(h.make(id, id, "a", h.prompt(size, size), 1));
    h.run();
    h.submit(next_turn(h, id + 1, id, h.prompt(size, size), 3));
    h.run();
    EXPECT_EQ(h.started(id + 1).reused, static_cast<std::int64_t>(size) - 1);
    EXPECT_EQ(h.tokens(id + 1), h.reference(h.prompt(size, size), 3));
  }
}

TEST(EngineCache, AForkCopiesNoPageUntilOneSideWrites) {
  harness h;
  h.submit(h.make(1, 1, "a", h.prompt(50), 10));
  h.run();
  const auto history = joined(h.prompt(50), h.tokens(1));
  const std::int32_t used = h.e->stats().pages_used;
  ASSERT_TRUE(h.e->fork(1, 2, 59));
  EXPECT_EQ(h.e->stats().pages_used, used);
  EXPECT_EQ(h.e->describe(2)->shared_pages, 2);
  EXPECT_EQ(h.e->stats().copied_pages, 0U);
  const auto left = joined(history, {1, 2, 3}), right = joined(history, {4, 5});
  h.submit(next_turn(h, 2, 1, left, 5));
  h.submit(next_turn(h, 3, 2, right, 5));
  h.run();
  EXPECT_EQ(h.started(2).reused, 59);
  EXPECT_EQ(h.started(3).reused, 59);
  EXPECT_EQ(h.e->stats().copied_pages, 1U) << "the last to write has the page alone";
  EXPECT_EQ(h.tokens(2), h.reference(left, 5));
  EXPECT_EQ(h.tokens(3), h.reference(right, 5));
}

TEST(EngineCache, ARunningSequenceIsForked) {
  harness h;
  h.warm_up();
  h.submit(h.make(1, 1, "a", h.prompt(40), 30));
  while (h.tokens(1).size() < 5) h.step();
  ASSERT_TRUE(h.e->fork(1, 2, 42));
  const auto prompt = joined(joined(h.prompt(40), {h.tokens(1)[0], h.tokens(1)[1]}), {7});
  h.submit(next_turn(h, 2, 2, prompt, 8));
  h.run();
  EXPECT_EQ(h.started(2).reused, 42);
  EXPECT_EQ(h.tokens(2), h.reference(prompt, 8));
  EXPECT_EQ(h.tokens(1), h.reference(h.prompt(40), 30));
}

TEST(EngineCache, AForkOfATurnWithAnExcludedTailHasNoTail) {
  harness h;
  h.warm_up();
  turn t = h.make(1, 1, "a", h.prompt(60), 20);
  t.exclude_tail = 10;
  h.submit(t);
  while (h.tokens(1).size() < 3) h.step();
  ASSERT_TRUE(h.e->fork(1, 2, 62));
  EXPECT_EQ(h.e->describe(2)->committed, 50);
  EXPECT_EQ(h.e->describe(2)->reusable, 50);
  EXPECT_EQ(h.e->describe(2)->tokens, 62);
}

TEST(EngineCache, RewindKeepsWhatIsBefore) {
  harness h;
  h.submit(h.make(1, 1, "a", h.prompt(100), 5));
  h.run();
  EXPECT_EQ(h.e->rewind(1, 200).error().code, "invalid_request");
  EXPECT_EQ(h.e->rewind(2, 0).error().code, "not_found");
  h.e->cut(1, 200);
  h.e->cut(2, 0);
  EXPECT_EQ(h.e->tokens_of(1), 104);
  EXPECT_EQ(h.e->tokens_of(2), 0);
  h.e->cut(1, 80);
  EXPECT_EQ(h.e->describe(1)->tokens, 80);
  EXPECT_EQ(*h.e->rewind(1, 70), 70);
  EXPECT_EQ(h.e->describe(1)->tokens, 70);
  const auto prompt = joined(h.prompt(70), {9, 9});
  h.submit(next_turn(h, 2, 1, prompt, 3));
  h.run();
  EXPECT_EQ(h.started(2).reused, 70);
  EXPECT_EQ(h.tokens(2), h.reference(prompt, 3));
}

TEST(EngineCache, CancelLeavesWhatTheClientWasSent) {
  harness h;
  h.warm_up();
  h.submit(h.make(1, 1, "a", h.prompt(20), 50));
  while (h.tokens(1).size() < 9) h.step();
  h.e->cancel(1, 23);
  h.run();
  EXPECT_EQ(h.ended(1).committed, 23);
  EXPECT_EQ(h.e->describe(1)->tokens, 23);
}

TEST(EngineCache, AnExcludedTailIsUsedAndLeavesNothing) {
  harness h;
  turn t = h.make(1, 1, "a", h.prompt(100), 5);
  t.exclude_tail = 10;
  h.submit(t);
  h.run();
  EXPECT_EQ(h.tokens(1), h.reference(h.prompt(100), 5));
  EXPECT_EQ(h.ended(1).committed, 90);
  EXPECT_EQ(h.e->estimate("a", 9, h.prompt(100)).reused, 64) << "full pages before the tail are cached";
  turn all = h.make(2, 2, "a", h.prompt(50, 3), 2);
  all.exclude_tail = 1000;
  h.submit(all);
  h.run();
  EXPECT_EQ(h.ended(2).committed, 0);
  EXPECT_EQ(h.e->estimate("a", 9, h.prompt(50, 3)).reused, 0);
}

TEST(EngineCache, OverflowIsRefusedEndsOrRotates) {
  const fake_backend::shape shape{.context = 128, .pages = 20};
  harness h(shape);
  turn t = h.make(1, 1, "a", h.prompt(100), 29);
  EXPECT_EQ(h.e->submit(t).error().code, "context_length_exceeded");
  t.overflow = overflow_policy::stop;
  h.submit(t);
  h.run();
  EXPECT_EQ(h.tokens(1).size(), 28U);
  EXPECT_TRUE(h.ended(1).context_full);

  turn r = h.make(2, 2, "a", h.prompt(100, 1), 150);
  r.overflow = overflow_policy::rotate;
  r.rotate_keep = 97;
  EXPECT_EQ(h.e->submit(r).error().code, "invalid_request") << "nothing would be left to rotate";
  r.rotate_keep = 20;
  h.submit(r);
  h.run();
  const rotation rotate{.keep = 1, .ring = 3};
  EXPECT_EQ(h.tokens(2), cold_answer(shape, rotate, r.prompt, 150));
  EXPECT_EQ(h.ended(2).rotate_keep, 32);
  EXPECT_EQ(h.ended(2).forgotten, 4 * 32);  // of 249 lines blocks 0 and 5 to 7 are left
  EXPECT_LE(h.e->describe(2)->pages, 4);

  // The next turn computes its new tokens only, and rotates on.
  turn more = next_turn(h, 3, 2, joined(joined(r.prompt, h.tokens(2)), {1, 2, 3}), 40);
  more.overflow = overflow_policy::rotate;
  more.rotate_keep = 20;
  h.submit(more);
  h.run();
  EXPECT_EQ(h.started(3).reused, 249);
  EXPECT_EQ(h.tokens(3), cold_answer(shape, rotate, more.prompt, 40));

  // Rotated pages are nobody's prefix: a plain sequence finds those before the rotation began.
  EXPECT_EQ(h.e->estimate("a", 9, more.prompt).reused, 96);
}

TEST(EngineCache, APromptLongerThanTheContextRotatesToo) {
  const fake_backend::shape shape{.context = 96, .pages = 4};
  harness h(shape, {.max_chunk = 70});
  turn t = h.make(1, 1, "a", h.prompt(300), 9);
  t.overflow = overflow_policy::rotate;
  h.submit(t);
  h.run();
  EXPECT_EQ(h.tokens(1), cold_answer(shape, {.keep = 0, .ring = 3}, t.prompt, 9));
}

TEST(EngineCache, TheLeftLayoutCannotRotate) {
  harness h({.context = 128, .pages = 20}, {.layout = cache_layout::left});
  turn t = h.make(1, 1, "a", h.prompt(10), 3);
  t.overflow = overflow_policy::rotate;
  EXPECT_EQ(h.e->submit(t).error().code, "invalid_request");
}

const fake_backend::shape windowed{.context = 512, .pages = 60, .windows = {0, 64, 64}};

TEST(EngineCache, APromptLongerThanTheWindowIsNotComputedAgain) {
  harness h(windowed);
  h.submit(h.make(1, 1, "a", h.prompt(300), 1));
  h.run();
  h.submit(next_turn(h, 2, 1, h.prompt(300), 4));
  h.run();
  EXPECT_EQ(h.started(2).reused, 299);
  EXPECT_EQ(h.tokens(2), cold_answer(windowed, {}, h.prompt(300), 4));
  const auto longer = joined(joined(h.prompt(300), h.tokens(2)), h.prompt(50, 2));
  h.submit(next_turn(h, 3, 1, longer, 4));
  h.run();
  EXPECT_EQ(h.started(3).reused, 303);
  EXPECT_EQ(h.tokens(3), cold_answer(windowed, {}, longer, 4));
}

TEST(EngineCache, PagesOutOfTheWindowGoFirstAndOnlyUnderPressure) {
  harness h(windowed);
  h.submit(h.make(1, 1, "a", h.prompt(300), 1));
  h.run();
  EXPECT_EQ(h.e->describe(1)->pages, 30) << "nothing is dropped without need";
  EXPECT_EQ(*h.e->rewind(1, 290), 290);
  EXPECT_EQ(h.e->estimate("a", 1, h.prompt(200)).reused, 199) << "also where the window has passed";
  h.submit(h.make(2, 2, "a", h.prompt(330, 1), 1));  // 33 pages; 30 are free
  h.run();
  EXPECT_EQ(h.e->estimate("a", 1, joined(h.prompt(290), {1})).reused, 290) << "its end is still there";
  EXPECT_EQ(h.e->stats().evicted_pages, 3U);
  // Told honestly: the pages of the window before an early position may be gone.
  const auto early = h.e->rewind(1, 40);
  ASSERT_TRUE(early);
  h.submit(next_turn(h, 3, 1, joined(h.prompt(40), {5}), 2));
  h.run();
  EXPECT_EQ(h.started(3).reused, *early);
  EXPECT_EQ(h.tokens(3), cold_answer(windowed, {}, joined(h.prompt(40), {5}), 2));
}

TEST(EngineCache, WhatIsExportedIsReusedWhereItIsImported) {
  for (const cache_layout layout : {cache_layout::paged, cache_layout::left, cache_layout::ring}) {
    harness from(windowed, {.layout = layout}), to({.context = 512, .pages = 120, .windows = {0, 64, 64}});
    from.submit(from.make(1, 1, "a", from.prompt(300), 5));
    from.run();
    const auto state = from.e->state_of(1);
    ASSERT_TRUE(state);
    ASSERT_TRUE(to.e->begin_import(7, "b", *state));
    turn early = next_turn(to, 1, 7, joined(from.prompt(300), {1}), 1);
    early.tenant = "b";
    EXPECT_EQ(to.e->submit(early).error().code, "busy");
    for (std::int32_t t = 0; t < 3; ++t)
      for (std::int32_t b = 0; b < 10; ++b)
        if (const auto lines = from.e->read_block(1, t, b)) {
          ASSERT_TRUE(to.e->import_block(7, *lines));
        }
    ASSERT_TRUE(to.e->end_import(7));
    EXPECT_EQ(to.e->describe(7)->reusable, 304);
    EXPECT_EQ(to.e->describe(7)->pages, 30);
    const auto prompt = joined(joined(from.prompt(300), from.tokens(1)), {3, 4});
    turn t = next_turn(to, 2, 7, prompt, 4);
    t.tenant = "b";
    to.submit(t);
    to.run();
    EXPECT_EQ(to.started(2).reused, 304);
    EXPECT_EQ(to.tokens(2), cold_answer(windowed, {}, prompt, 4));
  }
}

// Nobody can vouch for what a file says: its lines serve the sequence they were imported for, and no other.
TEST(EngineCache, ImportedLinesAreNotShared) {
  harness h;
  ASSERT_TRUE(h.e->begin_import(1, "a", {.tokens = h.prompt(64), .committed = 64}));
  const std::vector<std::byte> lies(32 * sizeof(std::uint64_t), std::byte{7});
  for (const std::int32_t block : {0, 1})
    ASSERT_TRUE(h.e->import_block(1, {.table = 0, .block = block, .lines = 32, .bytes = lies}));
  ASSERT_TRUE(h.e->end_import(1));
  const auto prompt = joined(h.prompt(64), h.prompt(40, 1));
  h.submit(next_turn(h, 1, 1, prompt, 3));
  h.run();
  EXPECT_EQ(h.started(1).reused, 64);
  EXPECT_NE(h.tokens(1), h.reference(prompt, 3)) << "its own client gets what its file says";
  ASSERT_TRUE(h.e->fork(1, 2, 100));
  h.submit(next_turn(h, 2, 2, prompt, 3));
  h.submit(h.make(3, 3, "a", prompt, 3));
  h.run();
  EXPECT_EQ(h.started(3).reused, 0);
  EXPECT_EQ(h.tokens(3), h.reference(prompt, 3));
  h.e->rewind(1, 0);
  h.submit(next_turn(h, 4, 1, prompt, 3));
  h.run();
  EXPECT_EQ(h.tokens(4), h.reference(prompt, 3)) << "with its lines gone it is as good as any";
}

TEST(EngineCache, ExportGivesWhatIsThere) {
  for (const cache_layout layout : {cache_layout::paged, cache_layout::left}) {
    harness h({.context = 128, .pages = 8}, {.layout = layout});
    h.submit(h.make(1, 1, "a", h.prompt(100), 4));
    h.run();
    ASSERT_TRUE(h.e->fork(1, 2, 103));
    EXPECT_EQ(h.e->state_of(2)->committed, layout == cache_layout::paged ? 103 : 0) << "a fork without a slot yet";
    h.submit(h.make(2, 3, "a", h.prompt(120, 1), 8));
    h.submit(h.make(3, 4, "a", h.prompt(120, 2), 8));
    h.run();
    const auto state = h.e->state_of(1);
    EXPECT_EQ(state->committed, 0) << "evicted";
    EXPECT_EQ(h.e->describe(1)->committed, 0);
  }
}

TEST(EngineCache, AnImportIsCheckedBeforeAnythingIsTouched) {
  harness h;
  const auto code = [&](sequence_state s) {
    const auto r = h.e->begin_import(1, "a", std::move(s));
    return r ? std::string() : r.error().code;
  };
  EXPECT_EQ(code({.tokens = {1, 2}, .committed = 3}), "invalid_request");
  EXPECT_EQ(code({.tokens = {1, 2}, .committed = -1}), "invalid_request");
  EXPECT_EQ(code({.tokens = {1, 64}, .committed = 1}), "invalid_request");
  EXPECT_EQ(code({.tokens = {1, -1}, .committed = 1}), "invalid_request");
  EXPECT_EQ(code({.tokens = h.prompt(513), .committed = 513}), "session_file_mismatch");
  EXPECT_EQ(code({.tokens = {1}, .committed = 1, .rotate = {.keep = 1, .ring = 99}}), "session_file_mismatch");
  EXPECT_EQ(h.e->stats().sequences, 0);
  EXPECT_EQ(code({.tokens = h.prompt(40), .committed = 40}), "");
  EXPECT_EQ(code({.tokens = h.prompt(40), .committed = 40}), "invalid_request") << "it exists";
  const auto block = [&](std::int32_t table, std::int32_t number, std::int32_t lines) {
    return h.e->import_block(1, {.table = table, .block = number, .lines = lines, .bytes = {}}).error().code;
  };
  EXPECT_EQ(block(1, 0, 32), "invalid_request");
  EXPECT_EQ(block(-1, 0, 32), "invalid_request");
  EXPECT_EQ(block(0, 2, 32), "invalid_request");
  EXPECT_EQ(block(0, 1, 32), "invalid_request") << "8 lines are left";
  EXPECT_EQ(h.e->end_import(2).error().code, "not_found");
  EXPECT_EQ(h.e->stats().pages_used, 0);
}

TEST(EngineCache, AnotherKeepAfterAWrapFindsWhatIsStillThere) {
  for (const std::int32_t context : {256, 260}) {
    const fake_backend::shape shape{.context = context, .pages = 4 * 9};
    harness h(shape, {.layout = cache_layout::ring});
    turn first = h.make(1, 1, "a", h.prompt(200), 80);  // wraps by a block or two
    first.overflow = overflow_policy::rotate;
    first.rotate_keep = 64;
    h.submit(first);
    h.run();
    const auto history = joined(h.prompt(200), h.tokens(1));
    turn other = next_turn(h, 2, 1, history, 20);
    other.overflow = overflow_policy::rotate;
    other.rotate_keep = 128;
    h.submit(other);
    h.run();
    EXPECT_EQ(h.tokens(2), cold_answer(shape, {.keep = 4, .ring = 4}, history, 20));
    turn plain = next_turn(h, 3, 1, {history.begin(), history.begin() + 250}, 3);
    h.submit(plain);
    h.run();
    EXPECT_EQ(h.tokens(3), cold_answer(shape, {}, plain.prompt, 3));
  }
}

TEST(EngineCache, AnImportTakesOneSlotAndNoMore) {
  harness from({.context = 128, .pages = 8}), to({.context = 128, .pages = 8}, {.layout = cache_layout::left});
  from.submit(from.make(1, 1, "a", from.prompt(100), 5));
  from.run();
  for (const sequence_id id : {1, 2}) {  // both slots hold an idle sequence
    to.submit(to.make(id, id, "a", to.prompt(60, id), 1));
    to.run();
  }
  ASSERT_TRUE(to.e->begin_import(7, "a", *from.e->state_of(1)));
  for (const std::int32_t block : {3, 2, 1, 0}) ASSERT_TRUE(to.e->import_block(7, *from.e->read_block(1, 0, block)));
  ASSERT_TRUE(to.e->end_import(7));
  EXPECT_EQ(to.e->describe(7)->reusable, 104);
  EXPECT_EQ(to.e->describe(1)->reusable, 0);
  EXPECT_EQ(to.e->describe(2)->reusable, 60) << "the other's slot";
}

TEST(EngineCache, AnIdleRotatedSequenceHoldsItsContextAndNoMore) {
  harness h({.context = 128, .pages = 40});
  turn t = h.make(1, 1, "a", h.prompt(400), 1);
  t.overflow = overflow_policy::rotate;
  h.submit(t);
  h.run();
  EXPECT_LE(h.e->describe(1)->pages, 5);
}

// In the dense layouts a slot serves one sequence; what another has is copied.
TEST(EngineCache, ABlockThatAPromptPartsFromWithinIsNotKeptBehindTheWindow) {
  const fake_backend::shape shape{.context = 128, .pages = 11, .windows = {0, 20}};
  harness h(shape);
  const auto first = h.prompt(40);
  const auto other = joined({first.begin(), first.begin() + 5}, h.prompt(65, 9));
  h.submit(h.make(1, 1, "a", first, 1));
  h.run();
  h.submit(h.make(2, 2, "a", other, 3));
  h.run();
  // Takes the page that sequence 2 does not see any more: the index has that block in one table only.
  h.submit(h.make(3, 3, "a", h.prompt(20, 4), 1));
  h.run();
  ASSERT_EQ(h.e->stats().evicted_pages, 1U);
  h.submit(next_turn(h, 4, 1, other, 1));
  h.run();
  EXPECT_EQ(h.started(4).reused, 64);
  EXPECT_EQ(h.e->rewind(1, 20).value_or(-1), 0);
  const std::vector<token_id> shorter(other.begin(), other.begin() + 21);
  h.submit(next_turn(h, 5, 1, shorter, 4));
  h.run();
  EXPECT_EQ(h.tokens(5), cold_answer(shape, {}, shorter, 4));
}

TEST(EngineCache, AForkOfASlotThatHasWrappedComputesWhatTheSlotLacks) {
  const fake_backend::shape shape{.context = 128, .pages = 12};
  harness h(shape, {.layout = cache_layout::ring});
  h.backend->skip_copy = [](const page_copy& c) {
    EXPECT_GE(c.from, 0) << "a copy of a page that is not there";
    return c.from < 0;
  };
  turn t = h.make(1, 1, "a", h.prompt(128), 14);
  t.overflow = overflow_policy::rotate;
  h.submit(t);
  h.run();
  ASSERT_TRUE(h.e->fork(1, 2, 128));
  const auto prompt = joined(h.prompt(128), h.prompt(9, 5));
  t = next_turn(h, 2, 2, prompt, 3);
  t.overflow = overflow_policy::rotate;
  h.submit(t);
  h.run();
  EXPECT_EQ(h.ended(2).reason, finish_reason::length);
  EXPECT_EQ(h.tokens(2), cold_answer(shape, {.keep = 0, .ring = 4}, prompt, 3));
}

TEST(EngineCache, ASlotThatChangesInAStepIsNoSourceInIt) {
  harness h({.context = 128, .pages = 16}, {.layout = cache_layout::left});
  const auto first = h.prompt(100);
  const auto parted = joined({first.begin(), first.begin() + 37}, h.prompt(13, 5));
  h.submit(h.make(1, 1, "a", first, 1));
  h.run();
  h.submit(h.make(2, 2, "a", parted, 1));
  h.run();
  ASSERT_TRUE(h.e->fork(2, 3, 50));
  // Sequence 2 gets block 1 of sequence 1 in the step in which its fork asks for the one that was there.
  h.submit(next_turn(h, 3, 2, {first.begin(), first.begin() + 80}, 3));
  h.submit(next_turn(h, 4, 3, joined(parted, h.prompt(6, 7)), 3));
  h.run();
  EXPECT_EQ(h.started(3).reused, 64);
  EXPECT_EQ(h.tokens(3), h.reference({first.begin(), first.begin() + 80}, 3));
  EXPECT_EQ(h.tokens(4), h.reference(joined(parted, h.prompt(6, 7)), 3));
}

TEST(EngineCache, DenseSlotsCopyWhatOthersHave) {
  harness h({.context = 160, .pages = 20}, {.layout = cache_layout::left});
  h.submit(h.make(1, 1, "a", h.prompt(100), 4));
  h.run();
  ASSERT_TRUE(h.e->fork(1, 2, 103));
  const auto prompt = joined(joined(h.prompt(100), h.tokens(1)), {1});
  h.submit(next_turn(h, 2, 2, prompt, 5));
  h.submit(h.make(3, 3, "a", h.prompt(100), 5));
  h.run();
  EXPECT_EQ(h.started(2).reused, 103);
  EXPECT_EQ(h.started(3).reused, 96);
  EXPECT_EQ(h.tokens(2), h.reference(prompt, 5));
  EXPECT_EQ(h.tokens(3), h.reference(h.prompt(100), 5));
}

}  // namespace
}  // namespace kvern::gpu
