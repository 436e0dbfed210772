// What the engine's cache promises, case by case; engine_history_test.cpp has the random lives.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "gpu/engine/engine_test_support.hpp"

namespace kvern::gpu {
namespace {

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
