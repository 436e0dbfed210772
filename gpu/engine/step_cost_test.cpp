#include "gpu/engine/step_cost.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace kvern::gpu {
namespace {

TEST(KeyCount, IsWhatRowsSeeOneByOne) {
  const key_count keys({1000, 48, 7});
  double sum = 0;
  for (std::int32_t p = 0; p < 1500; ++p) {
    ASSERT_NEAR(keys.below(p), sum, 1e-9 * sum);
    const double seen = (std::min(p + 1, 1000) + std::min(p + 1, 48) + std::min(p + 1, 7)) / 3.0;
    ASSERT_DOUBLE_EQ(keys.of(p), seen);
    sum += seen;
  }
}

TEST(KeyCount, OfNoLayersIsNothing) {
  EXPECT_EQ(key_count().of(100), 0);
  EXPECT_EQ(key_count().below(100), 0);
}

TEST(StepLoad, OfAChunkIsThatOfItsRows) {
  const key_count keys({300, 64});
  step_load chunk, rows;
  chunk.add(keys, 40, 500);
  for (std::int32_t p = 40; p < 540; ++p) rows.add(keys, p, 1);
  EXPECT_EQ(chunk.rows, 500);
  EXPECT_EQ(chunk.reads, keys.of(539));
  EXPECT_NEAR(chunk.pairs, rows.pairs, 1e-6);
  chunk.add(keys, 40, 0);
  EXPECT_EQ(chunk.rows, 500);
}

TEST(StepLoad, CountsRowsWithLogits) {
  const key_count keys({300, 64});
  step_load load;
  load.add(keys, 40, 10);
  EXPECT_EQ(load.heads, 0);
  load.add(keys, 40, 10, 50);
  EXPECT_EQ(load.heads, 0) << "the rows end before";
  load.add(keys, 40, 10, 49);
  EXPECT_EQ(load.heads, 1);
  load.add(keys, 40, 10, 45);
  EXPECT_EQ(load.heads, 6);
  load.add(keys, 40, 10, 7);
  EXPECT_EQ(load.heads, 16);
  EXPECT_EQ(load.rows, 50);
}

TEST(StepCost, FindsTheMostRowsThatFit) {
  const key_count keys({5000, 512});
  const step_cost cost{.fixed = 7, .per_row = 0.4, .per_read = 0.001, .per_pair = 0.0004, .per_head = 2};
  for (const std::int32_t first : {0, 300, 4000, 9000})
    for (const auto& [ms, behind] : {std::pair(0.0, 500), {0.5, 0}, {3.0, 0}, {3.0, 7}, {40.0, 30}, {400.0, 199}}) {
      const std::int32_t fit = cost.rows_within(keys, first, 200, ms, first + behind);
      const auto takes = [&](std::int32_t rows) {
        step_load load;
        load.add(keys, first, rows, first + behind);
        return cost.of(load) - cost.fixed;
      };
      EXPECT_TRUE(fit == 0 || takes(fit) <= ms) << first << " " << ms;
      EXPECT_TRUE(fit == 200 || takes(fit + 1) > ms) << first << " " << ms;
    }
  EXPECT_EQ(step_cost{}.rows_within(keys, 0, 200, 0), 200);
  EXPECT_EQ(cost.rows_within(keys, 0, 200, -1), 0);
}

}  // namespace
}  // namespace kvern::gpu
