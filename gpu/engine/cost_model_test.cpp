#include "gpu/engine/cost_model.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

namespace kvern::gpu {
namespace {

step_load rows(double n) { return {.rows = n}; }

double line(double n) { return 12 + 0.3 * n; }

TEST(CostModel, LearnsALine) {
  cost_model m;
  for (int i = 0; i < 60; ++i) m.observe(rows(1 + i * 37 % 200), line(1 + i * 37 % 200));
  for (const double n : {1.0, 50.0, 200.0}) EXPECT_NEAR(m.estimate().of(rows(n)), line(n), 0.5) << n;
}

TEST(CostModel, TellsRowsFromKeys) {
  const key_count keys({8192});
  const step_cost truth{.fixed = 4, .per_row = 0.6, .per_read = 0.0005, .per_pair = 0.0006};
  std::mt19937 random(3);
  cost_model m;
  for (int i = 0; i < 200; ++i) {
    step_load load;
    for (int s = 0; s < 4; ++s) load.add(keys, static_cast<std::int32_t>(random() % 4000), 1);
    load.add(keys, static_cast<std::int32_t>(random() % 6000), static_cast<std::int32_t>(random() % 100));
    m.observe(load, truth.of(load));
  }
  for (const std::int32_t first : {0, 3000, 6000}) {
    step_load load;
    load.add(keys, first, 60);
    EXPECT_NEAR(m.estimate().of(load), truth.of(load), 0.02 * truth.of(load)) << first;
  }
}

TEST(CostModel, TellsRowsFromTheirLogits) {
  const step_cost truth{.fixed = 3, .per_row = 0.4, .per_read = 0.0002, .per_pair = 0.0002, .per_head = 0.9};
  const key_count keys({8192});
  std::mt19937 random(11);
  cost_model m;
  for (int i = 0; i < 400; ++i) {
    step_load load;
    const std::size_t streams = 1 + random() % 8;
    for (std::size_t s = 0; s < streams; ++s) {
      const auto at = static_cast<std::int32_t>(random() % 4000);
      load.add(keys, at, 1, at);
    }
    if (i % 3 != 0)
      load.add(keys, static_cast<std::int32_t>(random() % 4000), static_cast<std::int32_t>(random() % 80));
    m.observe(load, truth.of(load));
  }
  EXPECT_NEAR(m.estimate().per_row, 0.4, 0.03);
  EXPECT_NEAR(m.estimate().per_head, 0.9, 0.1);
}

TEST(CostModel, LearnsALastingChangeOfShapeWhereNothingIsToldOfKeys) {
  cost_model m;
  for (int i = 0; i < 3000; ++i) m.observe(rows(1 + i * 37 % 200), line(1 + i * 37 % 200));
  const auto later = [](double n) { return 30 + 0.15 * n; };
  for (int i = 0; i < 300; ++i) m.observe(rows(1 + i * 37 % 200), later(1 + i * 37 % 200));
  for (const double n : {1.0, 60.0, 200.0}) EXPECT_NEAR(m.estimate().of(rows(n)), later(n), 0.05 * later(n)) << n;
}

TEST(CostModel, FollowsALastingChangeWithinThreeSteps) {
  cost_model m;
  for (int i = 0; i < 200; ++i) m.observe(rows(1 + i * 37 % 200), line(1 + i * 37 % 200));
  for (int i = 0; i < 3; ++i) m.observe(rows(50), 3 * line(50));
  EXPECT_NEAR(m.estimate().of(rows(100)), 3 * line(100), 0.05 * 3 * line(100));
  for (int i = 0; i < 200; ++i) m.observe(rows(1 + i * 37 % 200), 3 * line(1 + i * 37 % 200));
  EXPECT_NEAR(m.estimate().of(rows(100)), 3 * line(100), 0.02 * 3 * line(100));
}

TEST(CostModel, LearnsModelsFarFromItsFirstGuess) {
  for (const double scale : {1e-5, 0.001, 100.0}) {
    cost_model m;
    for (int i = 0; i < 60; ++i) m.observe(rows(1 + i * 37 % 200), scale * line(1 + i * 37 % 200));
    EXPECT_NEAR(m.estimate().of(rows(100)), scale * line(100), 0.03 * scale * line(100)) << scale;
  }
}

TEST(CostModel, OneOddStepMovesItLittle) {
  cost_model m;
  std::mt19937 random(7);
  std::uniform_real_distribution<double> noise(0.95, 1.05);
  for (int i = 0; i < 100; ++i) m.observe(rows(1 + i * 37 % 200), line(1 + i * 37 % 200) * noise(random));
  const double before = m.estimate().of(rows(100));
  m.observe(rows(100), 5000);
  EXPECT_NEAR(m.estimate().of(rows(100)), before, before * 0.1);
}

TEST(CostModel, StaysUsableWhenAllStepsAreAlike) {
  cost_model m;
  for (int i = 0; i < 10000; ++i) m.observe(rows(4), 10);
  EXPECT_NEAR(m.estimate().of(rows(4)), 10, 0.01);
  EXPECT_TRUE(std::isfinite(m.estimate().of(rows(512))));
  for (int i = 0; i < 20; ++i) m.observe(rows(100), 34);
  m.observe(rows(4), 10);
  EXPECT_NEAR(m.estimate().of(rows(100)), 34, 2);
}

TEST(CostModel, AimsLowerWhereStepsVaryMore) {
  const auto after = [](double noise) {
    cost_model m;
    std::mt19937 random(5);
    std::normal_distribution<double> error(1, noise);
    for (int i = 0; i < 300; ++i) m.observe(rows(1 + i * 37 % 200), line(1 + i * 37 % 200) * error(random));
    return m.aim(50);
  };
  EXPECT_GT(after(0), 49);
  EXPECT_LT(after(0.05), 47);
  EXPECT_LT(after(0.1), after(0.05));
  EXPECT_GT(after(0.5), 30);
}

TEST(CostModel, TrustsTwiceWhatItHasSeen) {
  cost_model m;
  EXPECT_EQ(m.trusted_rows(512), 32);
  EXPECT_EQ(m.first_chunk(512), 32);
  m.observe(rows(10), 10);
  EXPECT_EQ(m.first_chunk(512), 512);
  EXPECT_EQ(m.trusted_rows(512), 32);
  m.observe(rows(100), 10);
  EXPECT_EQ(m.trusted_rows(512), 200);
  EXPECT_EQ(m.trusted_rows(150), 150);
}

TEST(CostModel, IgnoresWhatIsNoMeasurement) {
  cost_model m;
  m.observe(rows(10), 7);
  const double before = m.estimate().of(rows(10));
  m.observe(rows(0), 5);
  m.observe(rows(10), -1);
  m.observe(rows(10), std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(m.estimate().of(rows(10)), before);
}

/// Steps of streams beside one prompt after another, on a machine whose steps take `truth(load, step)`.
struct company {
  std::function<double(const step_load&, int)> truth;
  std::function<int(int)> streams = [](int) { return 4; };  ///< [step]
  std::vector<double> took{};                               ///< [step]

  void run(int steps) {
    const key_count keys({8192});
    cost_model m;
    for (int i = 0; i < 30; ++i) {  // streams alone
      const step_load load{.rows = 4, .reads = 400, .pairs = 400, .heads = 4};
      m.observe(load, truth(load, 0));
    }
    std::int32_t at = 0, stream = 100;
    for (int i = 0; i < steps; ++i, ++stream) {
      step_load load;
      for (int s = 0; s < streams(i); ++s) load.add(keys, stream, 1, stream);
      const step_cost cost = m.estimate();
      const double room = m.aim(budget) - cost.of(load);
      const std::int32_t fit = cost.rows_within(keys, at, m.trusted_rows(512), room);
      load.add(keys, at, std::max(fit, 1));
      const double ms = truth(load, i);
      m.observe(load, ms);
      took.push_back(ms);
      at += std::max(fit, 1);
      if (at > 6000) at = 0;
    }
  }

  /// Of the steps from `first` on.
  double quantile(std::size_t first, double share) const {
    std::vector<double> v(took.begin() + static_cast<std::ptrdiff_t>(first), took.end());
    std::sort(v.begin(), v.end());
    return v[static_cast<std::size_t>(share * static_cast<double>(v.size() - 1))];
  }

  static constexpr double budget = 50;
};

constexpr step_cost steady{.fixed = 3, .per_row = 0.65, .per_read = 0.0004, .per_pair = 0.0006};
constexpr std::size_t handful = 8;

TEST(SimulatedMachine, ThatIsLinearKeepsToItsTimeAndUsesIt) {
  company c{.truth = [](const step_load& l, int) { return steady.of(l); }};
  c.run(600);
  EXPECT_LE(c.quantile(handful, 0.95), 50);
  EXPECT_LE(c.quantile(handful, 1), 55);
  EXPECT_GE(c.quantile(handful, 0.3), 45);
}

TEST(SimulatedMachine, ThatReadsItsWeightsUntilItComputes) {
  for (const double kink : {8.0, 32.0, 100.0}) {
    SCOPED_TRACE(kink);
    company c{.truth = [kink](const step_load& l, int) {
      return 0.25 * std::max(kink, l.rows) + 0.0004 * l.reads + 0.0002 * l.pairs;
    }};
    c.run(600);
    EXPECT_LE(c.quantile(handful, 0.95), 51);
    EXPECT_LE(c.quantile(handful, 1), 75);  // the first step behind the kink
    EXPECT_GE(c.quantile(handful, 0.3), 42);
  }
}

TEST(SimulatedMachine, ThatIsNoisy) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937 random(seed);
    std::normal_distribution<double> error(1, 0.06);
    std::uniform_real_distribution<double> any(0, 1);
    company c{.truth = [&](const step_load& l, int) {
      return steady.of(l) * std::max(0.8, error(random)) * (any(random) < 0.01 ? 4 : 1);
    }};
    c.run(1000);
    EXPECT_LE(c.quantile(handful, 0.93), 52);
    EXPECT_GE(c.quantile(handful, 0.5), 40);
  }
}

TEST(SimulatedMachine, ThatHasADearHead) {
  constexpr step_cost dear{.fixed = 3, .per_row = 0.35, .per_read = 0.0002, .per_pair = 0.0003, .per_head = 1};
  company c{.truth = [&dear](const step_load& l, int) { return dear.of(l); },
            .streams = [](int step) { return step / 20 % 2 == 0 ? 2 : 16; }};
  c.run(600);
  EXPECT_LE(c.quantile(100, 0.95), 52);
  EXPECT_LE(c.quantile(100, 1), 56);
  EXPECT_GE(c.quantile(100, 0.3), 45);
}

TEST(SimulatedMachine, ThatBecomesThreeTimesSlower) {
  company c{.truth = [](const step_load& l, int step) { return steady.of(l) * (step < 300 ? 1 : 3); }};
  c.run(600);
  EXPECT_LE(c.quantile(300 + handful, 0.95), 51);
  EXPECT_GE(c.quantile(300 + handful, 0.3), 40);
  for (std::size_t i = 303; i < 600; ++i) EXPECT_LE(c.took[i], 60) << i;
}

}  // namespace
}  // namespace kvern::gpu
