// How long steps take.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "gpu/engine/engine_test_support.hpp"

namespace kvern::gpu {
namespace {

TEST(EnginePace, StepsWithRunningStreamsStayUnderTheirBound) {
  harness h({.context = 8192, .pages = 2048, .max_rows = 1024}, {.max_step_ms = 30, .max_chunk = 512});
  h.submit(h.make(1, 1, "a", h.prompt(5), -1));
  h.step();
  double longest = 0;
  double total_rows = 0;
  for (std::size_t i = 0; i < 300; ++i) {
    if (h.e->stats().queued == 0)
      h.submit(h.make(static_cast<turn_id>(i + 10), static_cast<sequence_id>(i + 10), "b", h.prompt(3000, i), 1));
    const std::size_t before = h.tokens(1).size();
    h.step();
    EXPECT_EQ(h.tokens(1).size(), before + 1) << "the stream waited";
    if (i < 20) continue;  // learning
    longest = std::max(longest, h.cost(h.rows));
    total_rows += h.rows;
  }
  EXPECT_LE(longest, 32);
  EXPECT_GE(total_rows / 280, 85);  // 100 rows take 30 ms
}

TEST(EnginePace, AStreamWaitsNoLongerWhenAPromptIsDeepOrTheMachineSlow) {
  harness h({.context = 8192, .pages = 1024, .max_rows = 1024, .windows = {0, 128}}, {.max_step_ms = 50});
  double slower = 1;
  double ms = 0;
  h.backend->on_forward = [&](const gpu::step& s) -> result<void> {
    double keys = 0;  // of a layer without a window
    for (const step_row& row : s.rows) keys += row.position;
    ms = slower * (3 + 0.6 * static_cast<double>(s.rows.size()) + 0.0008 * keys);
    return {};
  };
  h.backend->on_finalize = [&](std::span<const std::int32_t>) -> result<void> {
    h.advance(ms);
    return {};
  };
  for (turn_id id = 1; id <= 4; ++id) h.submit(h.make(id, id, "a", h.prompt(20, id), -1));
  for (int i = 0; i < 20; ++i) h.step();
  for (const turn_id id : {10, 11}) {
    h.submit(h.make(id, id, "b", h.prompt(5000, id), 1));
    std::vector<double> took;
    while (h.tokens(id).empty()) {
      const std::size_t before = h.tokens(1).size();
      h.step();
      ASSERT_EQ(h.tokens(1).size(), before + 1) << "the stream waited";
      took.push_back(ms);
    }
    constexpr std::size_t handful = 8;
    ASSERT_GT(took.size(), 60U);
    std::sort(took.begin() + handful, took.end() - 1);  // the last has what was left
    EXPECT_LE(took[handful + (took.size() - handful) * 90 / 100], 54) << slower;
    EXPECT_GE(took[handful + (took.size() - handful) / 4], 40) << slower;
    EXPECT_LE(took[took.size() - 2], 60) << slower;
    slower = 3;
  }
}

TEST(EnginePace, AStreamWaitsNoLongerWhereLogitsAreDear) {
  harness h({.context = 4096, .pages = 1024, .max_rows = 1024}, {.max_running = 32, .max_step_ms = 50});
  double ms = 0;
  h.backend->on_forward = [&](const gpu::step& s) -> result<void> {
    ms = 3 + 0.25 * static_cast<double>(s.rows.size());
    for (const step_row& row : s.rows) ms += row.logits ? 0.9 : 0;
    return {};
  };
  h.backend->on_finalize = [&](std::span<const std::int32_t>) -> result<void> {
    h.advance(ms);
    return {};
  };
  turn_id id = 0;
  for (; id < 2; ++id) h.submit(h.make(id, id, "a", h.prompt(20, id), -1));
  std::vector<double> took;
  for (int i = 0; i < 300; ++i) {
    // A long prompt all the time, and now and then a dozen answers for a while.
    if (h.e->stats().queued == 0 && h.e->stats().running < 25) {
      h.submit(h.make(id, id, "b", h.prompt(3000, id), 1));
      ++id;
    }
    for (int more = 0; i % 60 == 30 && more < 12; ++more, ++id) h.submit(h.make(id, id, "c", h.prompt(5, id), 25));
    h.step();
    if (i >= 100) took.push_back(ms);
  }
  std::sort(took.begin(), took.end());
  EXPECT_LE(took[took.size() * 95 / 100], 52);
  EXPECT_LE(took.back(), 58);
  EXPECT_GE(took[took.size() * 3 / 10], 44);
}

TEST(EnginePace, APromptAloneTakesTheWholeChunk) {
  harness h({.context = 4096, .pages = 200, .max_rows = 1024}, {.max_step_ms = 30, .max_chunk = 512});
  h.warm_up();
  h.submit(h.make(1, 1, "a", h.prompt(2048), 1));
  for (int i = 0; i < 4; ++i) {
    h.step();
    EXPECT_EQ(h.rows, 512);
  }
}

TEST(EnginePace, APromptAloneKeepsToItsTimeToo) {
  harness h({.context = 4096, .pages = 200, .max_rows = 1024}, {.max_prompt_step_ms = 60, .max_chunk = 512});
  h.submit(h.make(1, 1, "a", h.prompt(4000), 1));
  h.step();
  EXPECT_LE(h.rows, 32) << "nothing is known of the model's speed";
  for (int i = 0; i < 15; ++i) {
    h.step();
    EXPECT_LE(h.cost(h.rows), 66);
  }
  EXPECT_GE(h.rows, 200);  // 220 rows take 60 ms
}

}  // namespace
}  // namespace kvern::gpu
