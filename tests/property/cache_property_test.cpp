// Random histories of an engine on the CPU backend, over all combinations of its cache's options, checked against cold
// sequences that are computed alone on plain options.
//
// Each history has a number, which decides its combination and everything in it. KVERN_SEED is the first number (0),
// KVERN_HISTORIES how many follow: one round of combinations shows every pair of options' values. A longer search:
//   KVERN_HISTORIES=100000 tests/run property
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "tests/property/cpu_model.hpp"
#include "tests/property/history.hpp"
#include "tests/property/seeds.hpp"

namespace kvern::gpu {
namespace {

constexpr std::uint64_t parts = 8;

/// What it reused, and whether it went well.
std::uint64_t run_history(std::uint64_t number) {
  const combination c = combination_of(number);
  SCOPED_TRACE(fmt::format("KVERN_SEED={} KVERN_HISTORIES=1: {}", number, to_string(c)));
  const auto alone = load_cold(c);
  // Some have little room, so that pages are evicted and turns preempted.
  const auto contexts = static_cast<std::int32_t>(1 + number % 4);
  auto b = load_tiny(c, contexts + (c.cache.layout == cache_layout::paged ? 0 : 2),
                     static_cast<std::int32_t>(number % 5), number);
  const read_layout lines = layout_of(b->info());
  history run(number, std::move(b), *alone,
              {.engine = {.layout = c.cache.layout, .max_running = 6, .max_queued_per_tenant = 6, .max_chunk = 50},
               .lazy = c.cache.update == cache_update::lazy,
               .lines = lines,
               .longest_prompt = 400,
               .sessions = 6 + number % 5,
               .lines_are_checked_every = 5});
  EXPECT_EQ(run.run(500), "");
  const engine_stats stats = run.stats();
  fmt::print(
      "{}: {}: {} turns, {} steps, {} preempted, {} pages evicted, {} copied, {} reused, {} shared, {} forks, "
      "{} rotated, {} failed, {} of {} drafted tokens accepted\n",
      number, to_string(c), run.finished(), stats.steps, stats.preempted_turns, stats.evicted_pages, stats.copied_pages,
      stats.reused_tokens, stats.shared_tokens, run.forks(), run.rotated(), stats.failed_turns, stats.accepted_tokens,
      stats.drafted_tokens);
  return stats.reused_tokens;
}

class cache_property : public testing::TestWithParam<std::uint64_t> {};

TEST_P(cache_property, histories_equal_cold_runs) {
  const std::uint64_t first = number_from("KVERN_SEED", 0);
  const std::uint64_t end = first + number_from("KVERN_HISTORIES", round_size);
  std::uint64_t reused = 0;
  std::uint64_t done = 0;
  for (std::uint64_t number = first; number < end && !HasFailure(); ++number) {
    if (number % parts != GetParam()) continue;
    reused += run_history(number);
    ++done;
  }
  if (done == 0) GTEST_SKIP() << "no history of this part was asked for";
  EXPECT_TRUE(reused > 0 || done < 3);
}

INSTANTIATE_TEST_SUITE_P(part, cache_property, testing::Range(std::uint64_t{0}, parts));

TEST(combinations, show_every_pair_that_is_allowed) {
  for (const std::uint64_t round : {0, 1, 2}) {
    std::set<std::tuple<cache_layout, line_type, scale_span>> types_of_layouts;
    std::set<std::tuple<cache_update, line_type, scale_span>> types_of_updates;
    std::set<std::tuple<std::int32_t, line_type, scale_span>> types_of_shards;
    std::set<std::tuple<cache_layout, cache_update>> updates_of_layouts;
    std::set<std::tuple<int, cache_layout>> layouts_of_models;
    std::set<std::tuple<bool, bool>> stackings;
    const auto all = all_pairs(round);
    EXPECT_EQ(all.size(), round_size);
    for (const auto& [model, o, threads] : all) {
      EXPECT_TRUE(validate(o, tiny_kv_heads));
      types_of_layouts.emplace(o.layout, o.type, o.scale);
      types_of_updates.emplace(o.update, o.type, o.scale);
      types_of_shards.emplace(o.shards, o.type, o.scale);
      updates_of_layouts.emplace(o.layout, o.update);
      layouts_of_models.emplace(model, o.layout);
      stackings.emplace(o.stacked, o.stage_stacked);
    }
    EXPECT_EQ(types_of_layouts.size(), 3U * 6);
    EXPECT_EQ(types_of_updates.size(), 2U * 6);
    EXPECT_EQ(types_of_shards.size(), 2U * 6 - 1) << "one scale for a line and two shards are refused";
    EXPECT_EQ(updates_of_layouts.size(), 3U * 2);
    EXPECT_EQ(layouts_of_models.size(), 3U * 3);
    EXPECT_EQ(stackings.size(), 2U * 2);
  }
}

}  // namespace
}  // namespace kvern::gpu
