#include "gpu/engine/scheduler.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "gpu/backend.hpp"

namespace kvern::gpu {
namespace {

std::int32_t pages_of(std::int32_t lines) { return (lines + page_lines - 1) / page_lines; }

TEST(Scheduler, NothingToDo) {
  const step_plan plan = schedule({}, {});
  EXPECT_TRUE(plan.rows.empty());
  EXPECT_EQ(least_service({}, 7.0), 7.0);
}

TEST(Scheduler, ChargesByWeight) {
  scheduler_state s;
  s.tenants.push_back({.weight = 2, .turns = {{.known = 5}}});
  s.tenants.push_back({.weight = 1, .service = 3, .turns = {{.known = 5}}});
  step_plan plan;
  plan.rows = {{{0, 0}, 8, 1}, {{1, 0}, 8, 1}};
  update(s, plan);
  EXPECT_EQ(s.tenants[0].service, 4);
  EXPECT_EQ(s.tenants[1].service, 11);
  EXPECT_EQ(least_service(s, 0), 4);
  s.tenants[0].turns.clear();
  EXPECT_EQ(least_service(s, 0), 11);
}

TEST(Scheduler, SharesOfPagesCoverThePool) {
  scheduler_state s;
  s.total_pages = 100;
  s.tenants.push_back({.weight = 1, .turns = {{.known = 5}}});
  s.tenants.push_back({.weight = 2, .pages = 3});
  s.tenants.push_back({.weight = 9});  // neither pages nor turns
  EXPECT_EQ(page_share(s, 0), 34);
  EXPECT_EQ(page_share(s, 1), 67);
}

// A world of turns that the scheduler alone decides about: it carries out plans as the engine does, counting pages
// only.
class world {
 public:
  world(std::uint64_t seed, std::int32_t tenants, std::int32_t pages, step_budget budget)
      : random_(seed), budget_(budget), idle_(static_cast<std::size_t>(tenants)) {
    state_.tenants.resize(static_cast<std::size_t>(tenants));
    state_.free_pages = state_.total_pages = pages;
    state_.keys = key_count({1 << 20, 64});
    for (std::size_t i = 0; i < state_.tenants.size(); ++i) state_.tenants[i].weight = static_cast<double>(i % 2 + 1);
  }

  void arrive() {
    const std::size_t t = random_() % state_.tenants.size();
    tenant_view& tenant = state_.tenants[t];
    if (tenant.turns.size() > 30) return;
    if (tenant.turns.empty()) tenant.service = std::max(tenant.service, least_service(state_, tenant.service));
    const std::int32_t most = std::min(600, (state_.total_pages - 1) * page_lines);
    turn_view v{.order = ++order_,
                .known = 1 + static_cast<std::int32_t>(random_() % static_cast<std::uint64_t>(most))};
    left_[v.order] = static_cast<std::int32_t>(random_() % 60);
    // Some bring pages of an earlier turn, more than they keep.
    const auto cached = std::min<std::int32_t>(state_.free_pages, static_cast<std::int32_t>(random_() % 5));
    if (random_() % 2 == 0 && cached > 0) {
      v.computed =
          std::min(v.known - 1, static_cast<std::int32_t>(random_() % static_cast<std::uint64_t>(cached * page_lines)));
      v.pages = pages_of(v.computed);
      v.surplus = cached - v.pages;
      tenant.pages += cached;
      state_.free_pages -= cached;
    }
    tenant.turns.push_back(v);
  }

  void step() {
    recount();
    std::size_t waiting = 0;
    for (const tenant_view& t : state_.tenants) waiting += t.turns.size();
    if (waiting == 0) return;
    const step_plan plan = schedule(state_, budget_);
    const step_plan again = schedule(state_, budget_);
    ASSERT_EQ(plan.rows.size(), again.rows.size());
    ASSERT_FALSE(plan.rows.empty()) << "turns, and nothing planned";
    update(state_, plan);
    carry_out(plan);
  }

  bool done() const {
    return std::all_of(state_.tenants.begin(), state_.tenants.end(), [](const auto& t) { return t.turns.empty(); });
  }

 private:
  turn_view& at(turn_ref r) {
    return state_.tenants.at(static_cast<std::size_t>(r.tenant)).turns.at(static_cast<std::size_t>(r.turn));
  }

  void recount() {
    std::int32_t used = 0;
    for (std::size_t i = 0; i < state_.tenants.size(); ++i) {
      tenant_view& t = state_.tenants[i];
      t.pages = t.idle_pages = idle_[i];
      for (turn_view& v : t.turns) {
        v.settled = v.computed >= regain_[v.order];
        v.idle = v.running ? 0 : v.pages;
        v.alone = v.pages;
        v.lines = v.pages * page_lines;
        v.need = pages_of(v.known + 1);
        v.goal = pages_of(v.known + page_lines);
        t.pages += v.pages + v.surplus;
        if (!v.running) t.idle_pages += v.pages + v.surplus;
      }
      used += t.pages;
    }
    ASSERT_EQ(used + state_.free_pages, state_.total_pages);
  }

  void evict(std::size_t tenant, std::int32_t count) {
    const std::int32_t of_idle = std::min(count, idle_[tenant]);
    idle_[tenant] -= of_idle;
    count -= of_idle;
    for (turn_view& v : state_.tenants[tenant].turns) {
      if (v.running) continue;
      const std::int32_t taken = std::min(count, v.pages + v.surplus);
      const std::int32_t from_surplus = std::min(taken, v.surplus);
      v.surplus -= from_surplus;
      v.pages -= taken - from_surplus;
      v.computed = std::min(v.computed, v.pages * page_lines);
      count -= taken;
    }
    ASSERT_EQ(count, 0) << "evicted more than is idle";
  }

  void carry_out(const step_plan& plan) {
    for (const turn_ref r : plan.preempted) {
      ASSERT_TRUE(std::exchange(at(r).running, false));
      std::int32_t& regain = regain_[at(r).order];
      regain = std::max(regain, at(r).computed + preemption_gap);
    }
    for (const turn_ref r : plan.started) {
      ASSERT_FALSE(std::exchange(at(r).running, true));
      state_.free_pages += std::exchange(at(r).surplus, 0);
    }
    for (std::size_t i = 0; i < plan.evictions.size(); ++i) {
      evict(i, plan.evictions[i]);
      state_.free_pages += plan.evictions[i];
    }
    std::int32_t running = 0;
    for (const tenant_view& t : state_.tenants)
      running += static_cast<std::int32_t>(
          std::count_if(t.turns.begin(), t.turns.end(), [](const auto& v) { return v.running; }));
    ASSERT_LE(running, budget_.max_running);
    std::int32_t rows = 0;
    std::set<std::pair<std::int32_t, std::int32_t>> seen;
    for (const planned_rows& r : plan.rows) {
      turn_view& v = at(r.of);
      ASSERT_TRUE(v.running);
      ASSERT_TRUE(seen.emplace(r.of.tenant, r.of.turn).second);
      ASSERT_GT(r.rows, 0);
      ASSERT_LE(r.rows, v.known - v.computed);
      state_.free_pages -= r.pages;
      v.pages += r.pages;
      v.computed += r.rows;
      ASSERT_EQ(v.pages, pages_of(v.computed));
      rows += r.rows;
    }
    ASSERT_GE(state_.free_pages, 0);
    ASSERT_LE(rows, budget_.max_rows);
    finish();
  }

  // Turns whose tokens are all computed get another, or end and leave a cache.
  void finish() {
    for (std::size_t i = 0; i < state_.tenants.size(); ++i) {
      auto& turns = state_.tenants[i].turns;
      for (turn_view& v : turns) {
        if (v.computed < v.known || left_[v.order] == 0) continue;
        --left_[v.order];
        if (v.known >= state_.total_pages * page_lines) left_[v.order] = 0;
        if (left_[v.order] == 0) continue;
        v.generating = true;
        ++v.known;
      }
      std::erase_if(turns, [&](const turn_view& v) {
        if (v.computed < v.known) return false;
        idle_[i] += v.pages;
        return true;
      });
    }
  }

  std::mt19937_64 random_;
  step_budget budget_;
  scheduler_state state_;
  std::vector<std::int32_t> idle_;                ///< [tenants] pages of sequences without a turn
  std::map<std::uint64_t, std::int32_t> left_;    ///< tokens each turn will generate yet
  std::map<std::uint64_t, std::int32_t> regain_;  ///< as turn_record::regain
  std::uint64_t order_ = 0;
};

TEST(Scheduler, ThousandsOfHistoriesComeToAnEnd) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937_64 pick(seed);
    const auto running = static_cast<std::int32_t>(1 + pick() % 8);
    const step_budget budget{.max_rows = running + static_cast<std::int32_t>(pick() % 80),
                             .max_chunk = static_cast<std::int32_t>(1 + pick() % 200),
                             .max_running = running,
                             .cost = {.fixed = 3, .per_row = 1, .per_read = 0.01, .per_pair = 0.001},
                             .max_ms = static_cast<double>(1 + pick() % 60),
                             .max_prompt_ms = static_cast<double>(1 + pick() % 300)};
    world w(seed, static_cast<std::int32_t>(1 + pick() % 4), static_cast<std::int32_t>(2 + pick() % 40), budget);
    for (int i = 0; i < 200 && !HasFatalFailure(); ++i) {
      if (pick() % 3 == 0) w.arrive();
      w.step();
    }
    int steps = 0;
    while (!w.done() && ++steps < 200000 && !HasFatalFailure()) w.step();
    ASSERT_TRUE(w.done());
  }
}

}  // namespace
}  // namespace kvern::gpu
