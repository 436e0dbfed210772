#include "model/sampler/filters.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <vector>

namespace kvern {
namespace {

std::vector<candidate> of_probabilities(const std::vector<double>& p) {
  std::vector<candidate> out;
  for (std::size_t i = 0; i < p.size(); ++i)
    out.push_back({static_cast<float>(std::log(p[i])), static_cast<token_id>(i)});
  return out;
}

std::set<token_id> ids(const std::vector<candidate>& c) {
  std::set<token_id> out;
  for (const candidate& each : c) out.insert(each.id);
  return out;
}

using set = std::set<token_id>;

TEST(TopP, KeepsTheLeastSetThatReachesIt) {
  const std::vector<double> p{0.1, 0.4, 0.05, 0.25, 0.2};
  const auto kept = [&](double top_p) {
    auto c = of_probabilities(p);
    keep_likely(c, top_p, 0);
    return ids(c);
  };
  EXPECT_EQ(kept(0), (set{1}));
  EXPECT_EQ(kept(0.39), (set{1}));
  EXPECT_EQ(kept(0.5), (set{1, 3}));
  EXPECT_EQ(kept(0.84), (set{1, 3, 4}));
  EXPECT_EQ(kept(0.94), (set{0, 1, 3, 4}));
  EXPECT_EQ(kept(0.99), (set{0, 1, 2, 3, 4}));
}

TEST(MinP, ComparesWithTheLikeliest) {
  auto c = of_probabilities({0.1, 0.4, 0.05, 0.25, 0.2});
  keep_likely(c, 1, 0.3);  // 0.12
  EXPECT_EQ(ids(c), (set{1, 3, 4}));
  keep_likely(c, 1, 1);
  EXPECT_EQ(ids(c), (set{1}));
}

TEST(TopPAndMinP, TopPCountsWhatMinPWillDrop) {
  const std::vector<double> p{0.4, 0.25, 0.2, 0.1, 0.05};
  auto c = of_probabilities(p);
  keep_likely(c, 0.9, 0.3);  // top_p alone: 0 to 3; min_p alone: 0 to 2
  EXPECT_EQ(ids(c), (set{0, 1, 2}));
  c = of_probabilities(p);
  keep_likely(c, 0.6, 0.3);  // of what min_p leaves, 0.6 would still be two; of all, too
  EXPECT_EQ(ids(c), (set{0, 1}));
  c = of_probabilities(p);
  keep_likely(c, 0.7, 0.55);  // min_p leaves 0.65 of the probability: less than top_p wants
  EXPECT_EQ(ids(c), (set{0, 1}));
}

TEST(Typical, KeepsTheExpectedlySurprising) {
  // Entropy 1.17 nats; surprises 0.69, 1.20, 2.30, 2.30: nearest are the second, the first, then the rest by id.
  const std::vector<double> p{0.5, 0.3, 0.1, 0.1};
  double entropy = 0;
  for (const double x : p) entropy -= x * std::log(x);
  ASSERT_NEAR(entropy, 1.168, 0.01);
  const auto kept = [&](double typical) {
    auto c = of_probabilities(p);
    keep_typical(c, typical);
    return ids(c);
  };
  EXPECT_EQ(kept(0), (set{1}));
  EXPECT_EQ(kept(0.29), (set{1}));
  EXPECT_EQ(kept(0.5), (set{0, 1}));
  EXPECT_EQ(kept(0.85), (set{0, 1, 2}));
}

// Large sets are sorted piece by piece; the answer is that of a whole sort.
TEST(Filters, AgreeWithAWholeSortOnLargeSets) {
  const std::uint32_t seed = 77;
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 20; ++round) {
    std::vector<candidate> all;
    for (token_id i = 0; i < 5000; ++i) all.push_back({static_cast<float>(random()) * 0x1p-30F, i});
    const double p = 0.05 + 0.045 * round;
    auto order = all;
    std::sort(order.begin(), order.end(), likelier);
    double total = 0;
    for (const candidate& c : all) total += std::exp(static_cast<double>(c.logit));
    double sum = 0;
    std::size_t count = 0;
    while (sum < p) sum += std::exp(static_cast<double>(order[count++].logit)) / total;
    auto got = all;
    keep_likely(got, p, 0);
    ASSERT_EQ(got.size(), count);
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(got[i].id, order[i].id);
  }
}

// Of a whole vocabulary: few and many ties, ascending ids or any order, long and short fronts.
TEST(Filters, AgreeWithAWholeSortOnAVocabulary) {
  const std::uint32_t seed = 4711;
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 3);
  for (int round = 0; round < 12; ++round) {
    std::vector<candidate> all;
    for (token_id i = 0; i < 60000; ++i) {
      const float logit = normal(random);
      all.push_back({round % 3 == 1 ? std::round(logit) : round % 3 == 2 ? static_cast<float>(i) * 1e-4F : logit, i});
    }
    if (round % 2 == 1) std::shuffle(all.begin(), all.end(), random);
    auto order = all;
    std::sort(order.begin(), order.end(), likelier);
    const auto top = static_cast<double>(order[0].logit);
    double total = 0, sum = 0;
    for (const candidate& c : all) total += std::exp(static_cast<double>(c.logit) - top);
    const double p = 0.02 + 0.08 * round;
    std::size_t count = 0;
    while (sum < p * total) sum += std::exp(static_cast<double>(order[count++].logit) - top);
    auto got = all;
    keep_likely(got, p, 0);
    ASSERT_EQ(got.size(), count) << round;
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(got[i].id, order[i].id) << round << " " << i;

    double entropy = 0;
    const auto probability = [&](const candidate& c) { return std::exp(static_cast<double>(c.logit) - top) / total; };
    const auto surprise = [&](const candidate& c) { return std::log(total) - (static_cast<double>(c.logit) - top); };
    for (const candidate& c : all) entropy += probability(c) > 0 ? probability(c) * surprise(c) : 0;
    std::sort(order.begin(), order.end(), [&](const candidate& a, const candidate& b) {
      const double x = std::abs(surprise(a) - entropy), y = std::abs(surprise(b) - entropy);
      return x < y || (x == y && likelier(a, b));
    });
    sum = 0;
    count = 0;
    while (count < order.size() && !((sum += probability(order[count++])) > p)) {
    }
    got = all;
    keep_typical(got, p);
    ASSERT_EQ(got.size(), count) << round;
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(got[i].id, order[i].id) << round << " " << i;
  }
}

TEST(Draw, IsTheInverseOfTheDistribution) {
  const auto c = of_probabilities({0.5, 0.3, 0.2});
  EXPECT_EQ(draw(c, 1, 0), 0);
  EXPECT_EQ(draw(c, 1, 0.49), 0);
  EXPECT_EQ(draw(c, 1, 0.51), 1);
  EXPECT_EQ(draw(c, 1, 0.79), 1);
  EXPECT_EQ(draw(c, 1, 0.81), 2);
  EXPECT_EQ(draw(c, 1, std::nextafter(1.0, 0.0)), 2);
}

TEST(Draw, TinyAndHugeTemperatures) {
  const std::vector<candidate> c{{-1e30F, 0}, {3e38F, 1}, {-3e38F, 2}};
  for (const double u : {0.0, 0.5, std::nextafter(1.0, 0.0)})
    for (const double t : {1e-5, 1e-300, 5e-324, 1.0, 100.0}) EXPECT_EQ(draw(c, t, u), 1) << t << " " << u;
}

}  // namespace
}  // namespace kvern
