#include "gpu/engine/draft_policy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
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
      for (const std::int32_t rows : {1, 2, 4, 8, 16, 32}) few.observe(rows, 0, cost(rows));
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
  for (const std::int32_t rows : {1, 2, 4, 8, 16, 32}) EXPECT_NEAR(c.few.estimate(rows, 0, c.any), cost(rows), 1e-9);
  EXPECT_NEAR(c.few.estimate(12, 0, c.any), cost(12), 1e-9);
  EXPECT_NEAR(c.few.estimate(60, 0, c.any), cost(60), 3);
}

TEST(RowCosts, AskTheOtherModelWhereNothingWasMeasured) {
  const step_cost any{.fixed = 5, .per_row = 0.5};
  row_costs few;
  EXPECT_EQ(few.estimate(9, 0, any), 5 + 9 * 0.5);
  few.observe(4, 0, 8);
  EXPECT_NEAR(few.estimate(2, 0, any), 8 - 2 * 0.5, 0.1);
  EXPECT_NEAR(few.estimate(10, 0, any), 8 + 6 * 0.5, 0.1);
}

TEST(RowCosts, FollowAChangeAndPassOverWhatIsNoMeasurement) {
  const measured_costs c;
  row_costs few = c.few;
  few.observe(1, 0, 1000);
  EXPECT_LE(few.estimate(1, 0, c.any), 1.11 * cost(1)) << "something else was going on";
  EXPECT_TRUE(few.is_known(1));
  for (int i = 0; i < 100; ++i) few.observe(9, 0, cost(9));
  EXPECT_FALSE(few.is_known(1)) << "too long ago";
  for (int i = 0; i < 60; ++i) few.observe(1, 0, 5);
  EXPECT_NEAR(few.estimate(1, 0, c.any), 5, 0.1);
  few.observe(1, 0, std::nan(""));
  few.observe(1, 0, -1);
  few.observe(0, 0, 50);
  few.observe(5000, 0, 1);
  EXPECT_NEAR(few.estimate(1, 0, c.any), 5, 0.1);
}

TEST(RowCosts, AreKnownFromAgreeingStepsWithoutDrafts) {
  row_costs few;
  for (int i = 0; i < 20; ++i) few.observe(7, 2, 10);
  EXPECT_FALSE(few.is_known(5)) << "with drafts";
  few.observe(5, 0, 6);
  EXPECT_FALSE(few.is_known(5)) << "the first may be odd";
  few.observe(5, 0, 6.1);
  EXPECT_TRUE(few.is_known(5));
  EXPECT_TRUE(few.is_known(7)) << "about as many";
  EXPECT_FALSE(few.is_known(4));
  for (int i = 0; i < 63; ++i) few.observe(7, 2, 10);
  EXPECT_TRUE(few.is_known(5));
  few.observe(7, 2, 10);
  EXPECT_FALSE(few.is_known(5)) << "too long ago";
  few.observe(5, 0, 2);
  EXPECT_FALSE(few.is_known(5)) << "it was three times as long";
  for (int i = 0; i < 3; ++i) few.observe(5, 0, 2);
  EXPECT_TRUE(few.is_known(5));
  EXPECT_NEAR(few.estimate(5, 0, {}), 2, 0.6);
  EXPECT_NEAR(few.estimate(7, 2, {}), 10, 1e-9) << "those with drafts are apart";
  few.observe(7, 2, 1.5);
  EXPECT_FALSE(few.is_known(5)) << "more rows took less";
}

TEST(RowCosts, BelieveNothingOld) {
  const step_cost any{.fixed = 1, .per_row = 0.25, .per_head = 0.75};
  row_costs few;
  for (int i = 0; i < 10; ++i) few.observe(16, 8, 500);
  for (int i = 0; i < 63; ++i) few.observe(1, 0, 2);
  EXPECT_NEAR(few.estimate(16, 8, any), 500, 1e-9);
  few.observe(1, 0, 2);
  EXPECT_NEAR(few.estimate(16, 8, any), 2 + 15, 1e-9);
}

TEST(RowCosts, RecoverFromStepsThatTookNoTime) {
  row_costs few;
  for (int i = 0; i < 50; ++i) few.observe(2, 0, 0);
  EXPECT_GT(few.estimate(2, 0, {}), 0);
  for (int i = 0; i < 60; ++i) few.observe(2, 0, 3);
  EXPECT_NEAR(few.estimate(2, 0, {}), 3, 0.1);
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
    const std::int32_t length = c.share({{.most = 24, .chance = chance, .credit = 9}}, room)[0];
    EXPECT_GE(length, before) << chance;
    before = length;
  }
  EXPECT_EQ(before, 24);
  EXPECT_EQ(c.share({{.most = 24, .chance = 0.3}}, room)[0], 0);
  EXPECT_EQ(c.share({{.most = 24, .chance = 0.97, .credit = -0.1}}, room)[0], 0) << "not on credit";
  EXPECT_EQ(c.share({{.most = 24, .chance = 0.97, .credit = 0.4}}, room)[0], 0) << "a row costs 0.48 steps";
  EXPECT_EQ(c.share({{.most = 24, .chance = 0.97, .credit = 1.1}}, room)[0], 4) << "and five rows 1.04";
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
  const auto lengths = c.share({{.most = 24, .chance = 0.9, .credit = 9},
                                {.most = 24, .chance = 0.9, .credit = 9},
                                {.most = 24, .chance = 0.9, .credit = 9}},
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

TEST(ShareDrafts, CountPromptsBesideThemAsPromptRows) {
  measured_costs c;
  c.any.per_head = 5;  // of no matter here: all steps were measured
  const std::vector<draft_wish> wishes{{.most = 24, .chance = 0.8, .credit = 9},
                                       {.most = 24, .chance = 0.8, .credit = 9}};
  const auto alone = c.share(wishes, {.rows = 2, .decoding = 2, .most = 60});
  const auto beside = c.share(wishes, {.rows = 102, .decoding = 2, .most = 60});
  EXPECT_GE(sum(beside), sum(alone)) << "a longer step is slowed less";
}

TEST(ShareDrafts, OfManyTurnsAreAsGoodAsAnyEqualShare) {
  const auto dear = [](std::int32_t rows) { return rows <= 32 ? 10 + 0.1 * rows : 14 + 0.05 * rows; };
  row_costs few;
  for (int i = 0; i < 5; ++i)
    for (const std::int32_t rows : {16, 32, 64}) few.observe(rows, 0, dear(rows));
  const step_cost any{.fixed = 14, .per_row = 0.05};
  for (const double chance : {0.3, 0.6, 0.9}) {
    const std::vector<draft_wish> wishes(16, {.most = 24, .chance = chance, .credit = 9});
    const auto lengths = share_drafts(wishes, {.rows = 16, .decoding = 16, .most = 300}, few, any);
    const auto net = [&](std::int32_t added, double gained) {
      return gained - 16 * (few.estimate(16 + added, added, any) / few.estimate(16, 0, any) - 1);
    };
    const auto gain = [&](std::int32_t length) { return chance * (1 - std::pow(chance, length)) / (1 - chance); };
    double gained = 0;
    for (const std::int32_t length : lengths) gained += gain(length);
    for (std::int32_t length = 0; length <= 18; ++length)
      EXPECT_GE(net(sum(lengths), gained), net(16 * length, 16 * gain(length)) - 1e-9) << chance << " " << length;
  }
}

/// Streams that speak at once; a drafted token is right with `chance`, whatever its match. They have a record each, and
/// one for all costs.
struct company {
  explicit company(std::size_t streams) : records(streams) {}

  double chance = 0;
  std::function<double(std::int32_t rows, std::int32_t step)> takes = [](std::int32_t rows, std::int32_t) {
    return cost(rows);
  };
  row_costs few = {};
  std::vector<draft_record> records;
  std::int32_t steps = 0;
  std::int32_t plain_steps = 0;

  /// Time of answers of about so many tokens each, by what plain decoding would have taken.
  double speak(std::int32_t tokens, std::mt19937& random) {
    const step_cost any{.fixed = 3, .per_row = 0.69};
    const auto streams = static_cast<std::int32_t>(records.size());
    std::uniform_real_distribution<double> uniform;
    double ms = 0, plain_ms = 0;
    for (std::int32_t said = 0; said < tokens * streams; ++steps) {
      std::vector<std::int32_t> matches;
      std::vector<draft_wish> wishes;
      for (const draft_record& r : records) {
        matches.push_back(static_cast<std::int32_t>(2 + random() % 20));
        wishes.push_back({.most = 16, .chance = r.chance(matches.back()), .credit = r.credit()});
      }
      const draft_room room{.rows = streams, .decoding = streams, .most = 60};
      const std::vector<std::int32_t> lengths = share_drafts(wishes, room, few, any);
      const std::int32_t drafted = sum(lengths);
      const double took = takes(streams + drafted, steps);
      few.observe(streams + drafted, drafted, took);
      const double plain = few.estimate(streams, 0, any);
      const double added = drafted == 0 ? 0 : std::max(0.0, few.estimate(streams + drafted, drafted, any) - plain);
      std::int32_t brought = 0;
      for (std::size_t i = 0; i < records.size(); ++i) {
        std::int32_t right = 0;
        while (right < lengths[i] && uniform(random) < chance) ++right;
        records[i].settle(1 + right, drafted == 0 ? 0 : added / plain * streams / drafted * lengths[i]);
        if (lengths[i] > 0) records[i].observe(matches[i], lengths[i], right);
        brought += 1 + right;
      }
      plain_steps += drafted == 0 ? 1 : 0;
      said += brought;
      ms += took;
      plain_ms += takes(streams, steps) * brought / streams;
    }
    return ms / plain_ms;
  }
};

struct Company : testing::Test {
  const unsigned seed = std::random_device{}();
  const testing::ScopedTrace trace{__FILE__, __LINE__, seed};
  std::mt19937 random{seed};

  double simulate(double chance, std::int32_t tokens) {
    company c(1);
    c.chance = chance;
    return c.speak(tokens, random);
  }
};

TEST_F(Company, LosesLittleWhereNothingIsRightAndGainsWhereAllIs) {
  for (const double chance : {0.0, 0.05, 0.2, 0.4}) EXPECT_LT(simulate(chance, 300), 1.03) << chance;
  EXPECT_LT(simulate(0, 3000), 1.025);
  EXPECT_LT(simulate(0.97, 400), 0.5);
}

TEST_F(Company, LosesLittleInShortAnswersToo) {
  for (const double chance : {0.0, 0.1, 0.3}) {
    double first = 0, later = 0;
    company c(1);
    for (int i = 0; i < 300; ++i) {
      const auto tokens = static_cast<std::int32_t>(16 + random() % 17);
      first += simulate(chance, tokens);
      c.chance = chance;
      c.records.assign(1, c.records.front().passed_on());
      later += c.speak(tokens, random);
    }
    EXPECT_LT(first / 300, 1.03) << chance;
    EXPECT_LT(later / 300, 1.03) << chance;
  }
}

TEST_F(Company, GainsInShortAnswersOnceOneHasGained) {
  company c(1);
  c.chance = 0.97;
  c.speak(200, random);
  double sum = 0;
  for (int i = 0; i < 50; ++i) {
    c.records.assign(1, c.records.front().passed_on());
    sum += c.speak(20, random);
  }
  EXPECT_LT(sum / 50, 0.7);
}

TEST_F(Company, OfFiveLosesLittleOnAMachineThatChanges) {
  const auto dearer = [](std::int32_t rows) { return cost(rows) + 0.8 * rows; };
  const std::vector<std::function<double(std::int32_t, std::int32_t)>> machines = {
      [](std::int32_t rows, std::int32_t step) { return (step < 400 ? 1 : 3) * cost(rows); },
      [](std::int32_t rows, std::int32_t step) { return (step < 400 ? 3 : 1) * cost(rows); },
      [&](std::int32_t rows, std::int32_t step) { return step < 400 ? cost(rows) : dearer(rows); },
      [&](std::int32_t rows, std::int32_t step) { return step < 400 ? dearer(rows) : cost(rows); }};
  for (std::size_t i = 0; i < machines.size(); ++i) {
    for (const double chance : {0.0, 0.2}) {
      company c(5);
      c.chance = chance;
      c.takes = machines[i];
      EXPECT_LT(c.speak(800, random), 1.03) << i << " " << chance;
    }
    company c(5);
    c.chance = 0.97;
    c.takes = machines[i];
    EXPECT_LT(c.speak(4000, random), i == 2 ? 0.97 : 0.9) << i;
    EXPECT_GE(c.plain_steps, c.steps / 65) << i;
  }
}

TEST_F(Company, KeepsWhatAMachineThatChangesAllows) {
  // Rows that cost next to nothing, and then as much as a step.
  company c(5);
  c.chance = 0.6;
  c.takes = [](std::int32_t rows, std::int32_t step) { return step < 500 ? 10 + 0.02 * rows : 2.0 * rows; };
  for (int i = 0; c.steps < 500; ++i) c.speak(20, random);
  EXPECT_LT(c.speak(1500, random), 1.05) << "what they have saved may be tried once more";
}

}  // namespace
}  // namespace kvern::gpu
