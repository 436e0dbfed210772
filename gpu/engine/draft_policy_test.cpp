#include "gpu/engine/draft_policy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace kvern::gpu {
namespace {

/// A step's milliseconds: a row more costs much less than the first.
double cost(std::int32_t rows) { return rows == 1 ? 2.7 : 3.0 + 0.5 * rows; }

struct measured_costs {
  row_costs few;
  step_cost any{.fixed = 3, .per_row = 0.5};

  measured_costs() {
    for (int i = 0; i < 50; ++i)
      for (const std::int32_t rows : {1, 2, 4, 8, 16, 32}) few.observe(rows, cost(rows));
  }
  std::vector<std::int32_t> share(const std::vector<draft_wish>& wishes, const draft_room& room) const {
    return share_drafts(wishes, room, few, any);
  }
};

std::int32_t sum(const std::vector<std::int32_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), 0);
}

TEST(RowCosts, LieOnWhatWasMeasured) {
  const measured_costs c;
  for (const std::int32_t rows : {1, 2, 4, 8, 16, 32}) EXPECT_NEAR(c.few.estimate(rows, c.any), cost(rows), 1e-9);
  EXPECT_NEAR(c.few.estimate(12, c.any), cost(12), 1e-9);
  EXPECT_NEAR(c.few.estimate(60, c.any), cost(60), 3);
}

TEST(RowCosts, AskTheOtherModelWhereNothingWasMeasured) {
  const step_cost any{.fixed = 5, .per_row = 0.5};
  row_costs few;
  EXPECT_EQ(few.estimate(9, any), 5 + 9 * 0.5);
  few.observe(4, 8);
  EXPECT_NEAR(few.estimate(2, any), 8 - 2 * 0.5, 0.1);
  EXPECT_NEAR(few.estimate(10, any), 8 + 6 * 0.5, 0.1);
}

TEST(RowCosts, FollowAChangeAndPassOverWhatIsNoMeasurement) {
  const measured_costs c;
  row_costs few = c.few;
  few.observe(1, 1000);
  EXPECT_LE(few.estimate(1, c.any), 1.11 * cost(1)) << "something else was going on";
  EXPECT_TRUE(few.is_known(1));
  for (int i = 0; i < 100; ++i) few.observe(9, cost(9));
  EXPECT_FALSE(few.is_known(1)) << "too long ago";
  for (int i = 0; i < 60; ++i) few.observe(1, 5);
  EXPECT_NEAR(few.estimate(1, c.any), 5, 0.1);
  few.observe(1, std::nan(""));
  few.observe(1, -1);
  few.observe(0, 50);
  few.observe(5000, 1);
  EXPECT_NEAR(few.estimate(1, c.any), 5, 0.1);
}

TEST(DraftRecord, LearnsEachKindOfMatch) {
  draft_record r;
  EXPECT_LT(r.chance(2), r.chance(6));
  EXPECT_LT(r.chance(6), r.chance(30));
  for (int i = 0; i < 20; ++i) {
    r.observe(2, 8, 8);
    r.observe(30, 8, 0);
  }
  EXPECT_GT(r.chance(2), 0.9);
  EXPECT_LT(r.chance(2), 1);
  EXPECT_LT(r.chance(30), 0.2);
  for (int i = 0; i < 10; ++i) r.observe(2, 8, 0);
  EXPECT_LT(r.chance(2), 0.6) << "it forgets";
}

TEST(ShareDrafts, DraftsAsLongAsItPays) {
  const measured_costs c;
  const draft_room room{.rows = 1, .decoding = 1, .most = 60};
  std::int32_t before = 0;
  for (const double chance : {0.5, 0.7, 0.8, 0.9, 0.97}) {
    const std::int32_t length = c.share({{.most = 24, .chance = chance}}, room)[0];
    EXPECT_GE(length, before) << chance;
    before = length;
  }
  EXPECT_EQ(before, 24);
  EXPECT_EQ(c.share({{.most = 24, .chance = 0.3}}, room)[0], 0);
  EXPECT_EQ(c.share({{.most = 24, .chance = 0.97, .credit = -0.1}}, room)[0], 0) << "not on credit";
  EXPECT_EQ(c.share({{.most = 24, .chance = 0.3, .credit = 1}}, room)[0], 3) << "a trial";
  EXPECT_EQ(c.share({{.most = 2, .chance = 0.3, .credit = 1}}, room)[0], 2);
  EXPECT_TRUE(c.share({}, room).empty());
}

TEST(ShareDrafts, AlwaysMeansWhetherItPaysOrNot) {
  const measured_costs c;
  const draft_room room{.rows = 1, .decoding = 1, .most = 60};
  EXPECT_EQ(share_drafts(std::vector<draft_wish>{{.most = 24, .chance = 0.97, .credit = 1}}, room, {}, {})[0], 0)
      << "nothing is known";
  EXPECT_EQ(c.share({{.most = 24, .chance = 0.01, .credit = -5, .always = true}}, room)[0], 1);
  EXPECT_EQ(c.share({{.most = 24, .chance = 0.5, .credit = -5, .always = true}}, room)[0], 2);
  EXPECT_EQ(c.share({{.most = 24, .chance = 0.97, .credit = -5, .always = true}}, room)[0], 24);
}

TEST(ShareDrafts, StaysWithinItsRoom) {
  const measured_costs c;
  for (const std::int32_t most : {0, 1, 5, 17}) {
    const draft_room room{.rows = 3, .decoding = 3, .most = most};
    const auto lengths = c.share({{.most = 24, .chance = 0.98, .credit = 1},
                                  {.most = 24, .chance = 0.98, .credit = 1, .always = true},
                                  {.most = 24, .chance = 0.1, .credit = 1}},
                                 room);
    EXPECT_LE(sum(lengths), most);
  }
}

TEST(ShareDrafts, AreDividedWhenAllCopy) {
  const measured_costs c;
  const auto lengths = c.share({{.most = 24, .chance = 0.9}, {.most = 24, .chance = 0.9}, {.most = 24, .chance = 0.9}},
                               {.rows = 3, .decoding = 3, .most = 20});
  EXPECT_GT(*std::min_element(lengths.begin(), lengths.end()), 3);
  EXPECT_LE(*std::max_element(lengths.begin(), lengths.end()) - *std::min_element(lengths.begin(), lengths.end()), 1);
}

TEST(ShareDrafts, DoNotSlowOthersByMoreThanAFifth) {
  const measured_costs c;
  for (const bool always : {false, true})
    for (const std::int32_t decoding : {2, 4, 16}) {
      const auto lengths = c.share({{.most = 24, .chance = 0.98, .credit = 9, .always = always}},
                                   {.rows = decoding, .decoding = decoding, .most = 60});
      EXPECT_LE(cost(decoding + lengths[0]), 1.25 * cost(decoding)) << decoding;
      EXPECT_GT(lengths[0], 0) << decoding;
    }
}

/// Time of an answer by that of plain decoding, where a drafted token is right with `chance`, whatever its match.
double simulate(double chance, std::int32_t tokens, std::mt19937& random) {
  row_costs few;
  const step_cost any{.fixed = 3, .per_row = 0.69};
  draft_record record;
  std::uniform_real_distribution<double> uniform;
  double ms = 0;
  std::int32_t drafted = 0;
  for (std::int32_t said = 0; said < tokens;) {
    const auto match = static_cast<std::int32_t>(2 + random() % 20);
    const draft_wish wish{.most = 16, .chance = record.chance(match), .credit = record.credit()};
    drafted = share_drafts(std::span(&wish, 1), {.rows = 1, .decoding = 1, .most = 60}, few, any)[0];
    std::int32_t right = 0;
    while (right < drafted && uniform(random) < chance) ++right;
    few.observe(1 + drafted, cost(1 + drafted));
    const double plain = few.estimate(1, any);
    record.settle(1 + right, few.estimate(1 + drafted, any) / plain - 1);
    if (drafted > 0) record.observe(match, drafted, right);
    said += 1 + right;
    ms += cost(1 + drafted);
  }
  return ms / (tokens * cost(1));
}

TEST(DraftRecord, LosesLittleWhereNothingIsRightAndGainsWhereAllIs) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (const double chance : {0.0, 0.05, 0.2, 0.4}) EXPECT_LT(simulate(chance, 300, random), 1.03) << chance;
  EXPECT_LT(simulate(0, 3000, random), 1.025);
  EXPECT_LT(simulate(0.97, 400, random), 0.5);
}

}  // namespace
}  // namespace kvern::gpu
