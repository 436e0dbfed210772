// Full contexts, windows and wrapped slots.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "gpu/engine/engine_test_support.hpp"

namespace kvern::gpu {
namespace {

TEST(EngineRotation, OverflowIsRefusedEndsOrRotates) {
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

TEST(EngineRotation, APromptLongerThanTheContextRotatesToo) {
  const fake_backend::shape shape{.context = 96, .pages = 4};
  harness h(shape, {.max_chunk = 70});
  turn t = h.make(1, 1, "a", h.prompt(300), 9);
  t.overflow = overflow_policy::rotate;
  h.submit(t);
  h.run();
  EXPECT_EQ(h.tokens(1), cold_answer(shape, {.keep = 0, .ring = 3}, t.prompt, 9));
}

TEST(EngineRotation, TheLeftLayoutCannotRotate) {
  harness h({.context = 128, .pages = 20}, {.layout = cache_layout::left});
  turn t = h.make(1, 1, "a", h.prompt(10), 3);
  t.overflow = overflow_policy::rotate;
  EXPECT_EQ(h.e->submit(t).error().code, "invalid_request");
}

TEST(EngineRotation, APromptLongerThanTheWindowIsNotComputedAgain) {
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

TEST(EngineRotation, PagesOutOfTheWindowGoFirstAndOnlyUnderPressure) {
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

TEST(EngineRotation, AnotherKeepAfterAWrapFindsWhatIsStillThere) {
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

TEST(EngineRotation, AnIdleRotatedSequenceHoldsItsContextAndNoMore) {
  harness h({.context = 128, .pages = 40});
  turn t = h.make(1, 1, "a", h.prompt(400), 1);
  t.overflow = overflow_policy::rotate;
  h.submit(t);
  h.run();
  EXPECT_LE(h.e->describe(1)->pages, 5);
}

// In the dense layouts a slot serves one sequence; what another has is copied.
TEST(EngineRotation, ABlockThatAPromptPartsFromWithinIsNotKeptBehindTheWindow) {
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

TEST(EngineRotation, AForkOfASlotThatHasWrappedComputesWhatTheSlotLacks) {
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

}  // namespace
}  // namespace kvern::gpu
