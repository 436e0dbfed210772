// Single decisions of the planner, by way of schedule().
#include "gpu/engine/planner.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "gpu/engine/scheduler.hpp"

namespace kvern::gpu {
namespace {

std::int32_t pages_of(std::int32_t lines) { return (lines + 31) / 32; }

turn_view view(std::uint64_t order, std::int32_t known, std::int32_t computed, bool running) {
  const std::int32_t pages = pages_of(computed);
  return {.order = order,
          .known = known,
          .computed = computed,
          .pages = pages,
          .idle = running ? 0 : pages,
          .lines = pages * 32,
          .need = pages_of(known + 1),
          .goal = pages_of(known + 32),
          .alone = pages,
          .running = running};
}
turn_view decoding(std::uint64_t order, std::int32_t computed) {
  turn_view v = view(order, computed + 1, computed, true);
  v.generating = true;
  return v;
}
turn_view prompt(std::uint64_t order, std::int32_t known, std::int32_t computed = 0, bool running = false) {
  return view(order, known, computed, running);
}

scheduler_state state_of(std::vector<std::vector<turn_view>> tenants, std::int32_t free_pages) {
  scheduler_state s;
  s.free_pages = s.total_pages = free_pages;
  for (auto& turns : tenants) {
    tenant_view t;
    for (const turn_view& v : turns) {
      t.pages += v.pages + v.surplus;
      if (!v.running) t.idle_pages += v.pages + v.surplus;
    }
    t.turns = std::move(turns);
    s.total_pages += t.pages;
    s.tenants.push_back(t);
  }
  return s;
}

// A row takes a millisecond; beside two decode rows there is time for 40 of prompts.
constexpr step_budget wide{.max_rows = 256, .max_chunk = 100, .max_running = 16, .cost = {.per_row = 1}, .max_ms = 42};

std::int32_t rows_of(const step_plan& p, turn_ref r) {
  std::int32_t rows = 0;
  for (const planned_rows& each : p.rows)
    if (each.of == r) rows += each.rows;
  return rows;
}

TEST(Planner, DecodeRowsComeFirstThenPromptsWithinTheBudget) {
  const auto s = state_of({{prompt(1, 500)}, {decoding(2, 10), decoding(3, 70)}}, 100);
  const step_plan p = schedule(s, wide);
  ASSERT_EQ(p.rows.size(), 3U);
  EXPECT_EQ(p.rows[0].of, (turn_ref{1, 0}));
  EXPECT_EQ(p.rows[1].of, (turn_ref{1, 1}));
  EXPECT_EQ(p.rows[2].of, (turn_ref{0, 0}));
  EXPECT_EQ(p.rows[2].rows, 40);
  EXPECT_EQ(p.rows[2].pages, 2);
  EXPECT_EQ(p.started, (std::vector<turn_ref>{{0, 0}}));
}

TEST(Planner, WithoutDecodeRowsAPromptTakesTheChunk) {
  EXPECT_EQ(schedule(state_of({{prompt(1, 500)}}, 100), wide).rows.at(0).rows, 100);
}

TEST(Planner, WhatADeepPromptReadsCountsToo) {
  step_budget b = wide;
  b.cost = {.fixed = 5, .per_row = 1, .per_read = 0.01, .per_pair = 0.01};
  b.max_ms = 100;
  auto s = state_of({{decoding(1, 99), prompt(2, 500, 400, true), prompt(3, 900)}}, 100);
  s.keys = key_count({1 << 20, 1 << 20});
  // 5 and 1 + 1 + 1 for the first; 14 rows from position 400 on take 14, 4.14 and 57.05, a 15th 5.16 more.
  const step_plan p = schedule(s, b);
  EXPECT_EQ(rows_of(p, {0, 1}), 17);
  EXPECT_LE(rows_of(p, {0, 2}), 3);
  b.max_ms = 6;  // less than the decode row takes: a quarter of that, but a row at least
  EXPECT_EQ(rows_of(schedule(s, b), {0, 1}), 1);
}

TEST(Planner, RowsWithLogitsCountMore) {
  step_budget b = wide;
  b.cost = {.per_row = 1, .per_head = 10};
  EXPECT_EQ(rows_of(schedule(state_of({{decoding(1, 10), decoding(2, 70), prompt(3, 500)}}, 100), b), {0, 2}), 20);
  // Its last row has logits, which take more than is left.
  EXPECT_EQ(rows_of(schedule(state_of({{decoding(1, 10), decoding(2, 70), prompt(3, 15)}}, 100), b), {0, 2}), 14);
  EXPECT_EQ(rows_of(schedule(state_of({{decoding(1, 10), decoding(2, 70), prompt(3, 10)}}, 100), b), {0, 2}), 10);
}

TEST(Planner, TheTenantWithLeastServiceGoesFirst) {
  auto s = state_of({{prompt(1, 60)}, {prompt(2, 60)}, {prompt(3, 60)}}, 100);
  s.tenants[0].service = 30;
  s.tenants[1].service = 10;
  s.tenants[2].service = 20;
  const step_plan p = schedule(s, wide);
  EXPECT_EQ(rows_of(p, {1, 0}), 60);
  EXPECT_EQ(rows_of(p, {2, 0}), 40);
  EXPECT_EQ(rows_of(p, {0, 0}), 0);
}

TEST(Planner, WithinATenantTurnsGoInOrder) {
  const auto s = state_of({{prompt(1, 60), prompt(2, 30), prompt(3, 60)}}, 100);
  const step_plan p = schedule(s, wide);
  EXPECT_EQ(rows_of(p, {0, 0}), 60);
  EXPECT_EQ(rows_of(p, {0, 1}), 30);
  EXPECT_EQ(rows_of(p, {0, 2}), 10);
}

TEST(Planner, SlotsBoundTheStarts) {
  step_budget b = wide;
  b.max_running = 2;
  const step_plan p = schedule(state_of({{prompt(1, 5), prompt(2, 5), prompt(3, 5)}}, 100), b);
  EXPECT_EQ(p.started.size(), 2U);
}

TEST(Planner, ATenantBelowItsShareOfSlotsGetsTheNewestOfAnother) {
  step_budget b = wide;
  b.max_running = 3;
  auto s = state_of({{decoding(1, 5), decoding(2, 5), decoding(3, 5)}, {prompt(4, 5)}}, 100);
  EXPECT_TRUE(schedule(s, b).preempted.empty());  // not ahead yet
  s.tenants[0].service = 100;
  const step_plan p = schedule(s, b);
  EXPECT_EQ(p.preempted, (std::vector<turn_ref>{{0, 2}}));
  EXPECT_EQ(rows_of(p, {0, 2}), 0);
  EXPECT_EQ(rows_of(p, {1, 0}), 5);
  EXPECT_EQ(p.rows.size(), 3U);
}

TEST(Planner, OutOfPagesItEvictsBeforeItPreempts) {
  auto s = state_of({{decoding(1, 32)}, {}, {}}, 0);
  s.tenants[1].pages = s.tenants[1].idle_pages = 4;
  s.tenants[2].pages = s.tenants[2].idle_pages = 9;
  s.total_pages = 14;
  const step_plan p = schedule(s, wide);
  EXPECT_EQ(p.evictions, (std::vector<std::int32_t>{0, 0, 1}));  // furthest over its share
  EXPECT_EQ(rows_of(p, {0, 0}), 1);
}

TEST(Planner, ThenItPreemptsTheNewestOfTheTenantFurthestOver) {
  // Shares are 10 each. Tenant 0 holds 4, tenant 1 holds 16.
  auto s = state_of({{decoding(5, 128)}, {decoding(1, 250), decoding(2, 250)}}, 0);
  ASSERT_EQ(s.total_pages, 20);
  const step_plan p = schedule(s, wide);
  EXPECT_EQ(p.preempted, (std::vector<turn_ref>{{1, 1}}));
  EXPECT_EQ(p.evictions, (std::vector<std::int32_t>{0, 1}));  // no more of it than is needed
  EXPECT_EQ(rows_of(p, {0, 0}), 1);
  EXPECT_EQ(rows_of(p, {1, 0}), 1);
}

TEST(Planner, APreemptedTurnIsLeftAloneUntilItHasGained) {
  auto s = state_of({{decoding(5, 128)}, {decoding(1, 250), decoding(2, 250)}}, 0);
  s.tenants[1].turns[1].settled = false;
  const step_plan p = schedule(s, wide);
  EXPECT_EQ(p.preempted, (std::vector<turn_ref>{{1, 0}}));
  s.tenants[1].turns[0].settled = false;
  EXPECT_TRUE(schedule(s, wide).preempted.empty());
}

TEST(Planner, WithinATenantTheOlderTakesFromTheNewer) {
  const auto s = state_of({{decoding(1, 64), decoding(2, 64)}}, 0);
  const step_plan p = schedule(s, wide);
  EXPECT_EQ(p.preempted, (std::vector<turn_ref>{{0, 1}}));
  EXPECT_EQ(rows_of(p, {0, 0}), 1);
}

TEST(Planner, AnOlderTurnOverItsShareTakesNothingFromATenantWithinIt) {
  auto s = state_of({{decoding(1, 320)}, {decoding(2, 70)}}, 0);  // 10 and 3 pages; shares are 7
  const step_plan p = schedule(s, wide);
  EXPECT_TRUE(p.preempted.empty());
  EXPECT_EQ(rows_of(p, {0, 0}), 0);  // waits, and keeps its pages
  EXPECT_EQ(rows_of(p, {1, 0}), 1);
}

TEST(Planner, AStartNeedsRoomForTheWholePrompt) {
  auto s = state_of({{decoding(1, 40), prompt(2, 200)}}, 6);
  EXPECT_TRUE(schedule(s, wide).started.empty());
  s = state_of({{decoding(1, 40), prompt(2, 100)}}, 6);
  EXPECT_EQ(schedule(s, wide).started.size(), 1U);
  s = state_of({{prompt(2, 200)}}, 6);  // nothing runs: as far as the pages go
  EXPECT_EQ(schedule(s, wide).started.size(), 1U);
}

TEST(Planner, ARunningPromptIsNotStarvedOfPagesByANewOne) {
  const auto s = state_of({{prompt(1, 300, 32, true), prompt(2, 200)}}, 12);  // 9 of the 12 are spoken for
  const step_plan p = schedule(s, wide);
  EXPECT_TRUE(p.started.empty());
  EXPECT_EQ(rows_of(p, {0, 0}), 100);
}

TEST(Planner, AStartGivesItsSurplusBack) {
  turn_view v = prompt(1, 40, 20);
  v.surplus = 3;
  const auto s = state_of({{v}}, 0);
  const step_plan p = schedule(s, wide);
  EXPECT_EQ(rows_of(p, {0, 0}), 20);
  EXPECT_EQ(p.rows.at(0).pages, 1);
  EXPECT_EQ(p.evictions, (std::vector<std::int32_t>{0}));
}

TEST(Planner, ALargeTurnIsNotPassedOverForEver) {
  // Tenant 0's prompt has no room. As long as tenant 1 is not far ahead it may start; then it must wait.
  auto s = state_of({{prompt(1, 600)}, {decoding(2, 60), prompt(3, 32)}}, 12);
  EXPECT_EQ(schedule(s, wide).started, (std::vector<turn_ref>{{1, 1}}));
  s.tenants[1].service = patience + 10;
  EXPECT_TRUE(schedule(s, wide).started.empty());
}

TEST(Planner, SomeoneAlwaysGoesOn) {
  // Two prompts that hold the whole pool, each too small to go on, both of the same standing.
  const auto s = state_of({{prompt(2, 100, 64, true)}, {prompt(1, 100, 64, true)}}, 0);
  const step_plan p = schedule(s, wide);
  ASSERT_EQ(p.rows.size(), 1U);
  EXPECT_EQ(p.rows[0].of, (turn_ref{1, 0}));  // the oldest
  EXPECT_EQ(p.preempted, (std::vector<turn_ref>{{0, 0}}));
}

}  // namespace
}  // namespace kvern::gpu
