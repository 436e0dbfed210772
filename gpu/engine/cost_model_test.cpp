#include "gpu/engine/cost_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace kvern::gpu {
namespace {

TEST(CostModel, LearnsALine) {
  cost_model m;
  for (int i = 0; i < 60; ++i) {
    const std::int32_t rows = 1 + i * 37 % 200;
    m.observe(rows, 12 + 0.3 * rows);
  }
  for (const std::int32_t rows : {1, 50, 200}) EXPECT_NEAR(m.estimate(rows), 12 + 0.3 * rows, 0.5) << rows;
  EXPECT_NEAR(m.prompt_rows(8, 50, 512), (50 - 12 - 2.4) / 0.3, 3);
}

TEST(CostModel, FollowsAChange) {
  cost_model m;
  for (int i = 0; i < 200; ++i) m.observe(1 + i * 37 % 200, 12 + 0.3 * (1 + i * 37 % 200));
  for (int i = 0; i < 150; ++i) m.observe(1 + i * 37 % 200, 30 + 0.9 * (1 + i * 37 % 200));
  EXPECT_NEAR(m.estimate(100), 120, 5);
}

TEST(CostModel, LearnsModelsFarFromItsFirstGuess) {
  for (const double scale : {0.001, 100.0}) {
    cost_model m;
    for (int i = 0; i < 60; ++i) m.observe(1 + i * 37 % 200, scale * (12 + 0.3 * (1 + i * 37 % 200)));
    EXPECT_NEAR(m.estimate(100), scale * 42, std::max(0.1, 0.05 * scale * 42))
        << scale;  // a tenth of a millisecond, or 5%
  }
}

TEST(CostModel, OneOddStepMovesItLittle) {
  cost_model m;
  std::mt19937 random(7);
  std::uniform_real_distribution<double> noise(0.95, 1.05);
  for (int i = 0; i < 100; ++i) m.observe(1 + i * 37 % 200, (12 + 0.3 * (1 + i * 37 % 200)) * noise(random));
  const double before = m.estimate(100);
  m.observe(100, 5000);
  EXPECT_NEAR(m.estimate(100), before, before * 0.1);
}

TEST(CostModel, StaysUsableWhenAllStepsAreAlike) {
  cost_model m;
  for (int i = 0; i < 10000; ++i) m.observe(4, 10);
  EXPECT_NEAR(m.estimate(4), 10, 0.01);
  EXPECT_TRUE(std::isfinite(m.estimate(512)));
  EXPECT_GE(m.prompt_rows(4, 50, 512), 1);
  for (int i = 0; i < 20; ++i) m.observe(100, 34);
  m.observe(4, 10);
  EXPECT_NEAR(m.estimate(100), 34, 2);
}

TEST(CostModel, PromptsNeverStarveAndNeverPassTheChunk) {
  cost_model m;
  for (int i = 0; i < 50; ++i) m.observe(1 + i % 9, 100 + 50.0 * (1 + i % 9));
  EXPECT_EQ(m.prompt_rows(1, 50, 512), 1);
  cost_model fast;
  for (int i = 0; i < 50; ++i) fast.observe(1 + i * 37 % 200, 0.001);
  EXPECT_EQ(fast.prompt_rows(4, 50, 512), 512);
}

TEST(CostModel, IgnoresWhatIsNoMeasurement) {
  cost_model m;
  const double before = m.estimate(10);
  m.observe(0, 5);
  m.observe(10, -1);
  m.observe(10, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(m.estimate(10), before);
}

}  // namespace
}  // namespace kvern::gpu
