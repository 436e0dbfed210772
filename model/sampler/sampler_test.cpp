#include "model/sampler/sampler.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace kvern {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();

sampling_params plain(double temperature) {
  sampling_params p;
  p.temperature = temperature;
  p.top_k = 0;
  p.top_p = 1;
  p.min_p = 0;
  return p;
}

token_id one(const sampling_params& p, const std::vector<float>& logits, const std::vector<token_id>& history = {}) {
  sampler s(p, static_cast<std::int32_t>(logits.size()), 1);
  return s.next(logits, history, -1)->token;
}

// The distribution by its definition: every step on the whole vocabulary, sorted, in long double.
std::map<token_id, double> expected(const sampling_params& p, const std::vector<float>& logits,
                                    const std::vector<token_id>& history) {
  using real = long double;
  std::map<token_id, int> counts;
  const std::size_t window = p.penalty_window < 0 ? history.size() : static_cast<std::size_t>(p.penalty_window);
  for (std::size_t i = history.size() - std::min(window, history.size()); i < history.size(); ++i) ++counts[history[i]];
  std::vector<std::pair<real, token_id>> l;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const auto id = static_cast<token_id>(i);
    real x = logits[i];
    for (const auto& [token, bias] : p.logit_bias)
      if (token == id) x += bias;
    if (counts.contains(id)) {
      x = x > 0 ? x / p.repetition_penalty : x * p.repetition_penalty;
      x -= counts[id] * static_cast<real>(p.frequency_penalty) + p.presence_penalty;
    }
    l.emplace_back(x, id);
  }
  const auto likely = [](const auto& a, const auto& b) {
    return a.first > b.first || (a.first == b.first && a.second < b.second);
  };
  std::sort(l.begin(), l.end(), likely);
  const auto softmax = [&](real temperature) {
    std::vector<real> out;
    real total = 0;
    real top = l.front().first;
    for (const auto& each : l) top = std::max(top, each.first);
    for (const auto& each : l) total += std::exp((each.first - top) / temperature);
    for (const auto& each : l) out.push_back(std::exp((each.first - top) / temperature) / total);
    return out;
  };
  if (p.top_k > 0 && static_cast<std::size_t>(p.top_k) < l.size()) l.resize(static_cast<std::size_t>(p.top_k));
  if (p.typical_p < 1) {
    const auto probabilities = softmax(1);
    real entropy = 0;
    for (const real q : probabilities) entropy -= q * std::log(q);
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < l.size(); ++i) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::abs(-std::log(probabilities[a]) - entropy) < std::abs(-std::log(probabilities[b]) - entropy);
    });
    decltype(l) kept;
    real sum = 0;
    for (const std::size_t i : order) {
      kept.push_back(l[i]);
      if ((sum += probabilities[i]) > p.typical_p) break;
    }
    l = kept;
    std::sort(l.begin(), l.end(), likely);
  }
  if (p.top_p < 1) {
    const auto probabilities = softmax(1);
    real sum = 0;
    std::size_t count = 0;
    while (count < l.size() && (sum += probabilities[count++]) < p.top_p) {
    }
    l.resize(count);
  }
  if (p.min_p > 0) {
    const auto probabilities = softmax(1);
    std::size_t count = 0;
    while (count < l.size() && probabilities[count] >= p.min_p * probabilities[0]) ++count;
    l.resize(count);
  }
  const auto probabilities = softmax(p.temperature);
  std::map<token_id, double> out;
  for (std::size_t i = 0; i < l.size(); ++i) out[l[i].second] = static_cast<double>(probabilities[i]);
  return out;
}

// Draws `n` times and compares with `want` by chi-square, rare outcomes put together. The bound is the mean plus five
// standard deviations: a right sampler passes, and the seed is fixed.
void check_distribution(const sampling_params& p, const std::vector<float>& logits,
                        const std::vector<token_id>& history, const char* name) {
  const auto want = expected(p, logits, history);
  const int n = 40000;
  std::map<token_id, int> got;
  sampler s(p, static_cast<std::int32_t>(logits.size()), 1);
  for (int i = 0; i < n; ++i) ++got[s.next(logits, history, -1)->token];
  for (const auto& [token, count] : got)
    ASSERT_TRUE(want.contains(token)) << name << ": token " << token << " was filtered";
  double chi = 0;
  double rest_want = 0;
  double rest_got = 0;
  int cells = 0;
  for (const auto& [token, probability] : want) {
    const double e = probability * n;
    const double g = got.contains(token) ? got[token] : 0;
    if (e < 10) {
      rest_want += e;
      rest_got += g;
      continue;
    }
    chi += (g - e) * (g - e) / e;
    ++cells;
  }
  if (rest_want >= 10) {
    chi += (rest_got - rest_want) * (rest_got - rest_want) / rest_want;
    ++cells;
  }
  const double freedom = std::max(1, cells - 1);
  fmt::print("{}: seed {}, chi-square {:.1f}, {} degrees of freedom\n", name, *p.seed, chi, freedom);
  EXPECT_LT(chi, freedom + 5 * std::sqrt(2 * freedom)) << name;
}

std::vector<float> some_logits(std::size_t size, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> out(size);
  for (float& x : out) x = normal(random);
  return out;
}

TEST(Sampler, DrawsFromTheExpectedDistribution) {
  const auto logits = some_logits(200, 5);
  const std::vector<token_id> history{3, 3, 17, 42, 3, 199, 0, 42};
  struct run {
    const char* name;
    std::function<void(sampling_params&)> set;
  };
  const run runs[] = {
      {"no filter", [](auto&) {}},
      {"temperature 0.3", [](auto& p) { p.temperature = 0.3; }},
      {"temperature 3", [](auto& p) { p.temperature = 3; }},
      {"top_k 10", [](auto& p) { p.top_k = 10; }},
      {"top_p 0.7", [](auto& p) { p.top_p = 0.7; }},
      {"min_p 0.1", [](auto& p) { p.min_p = 0.1; }},
      {"typical_p 0.6", [](auto& p) { p.typical_p = 0.6; }},
      {"repetition", [](auto& p) { p.repetition_penalty = 1.5; }},
      {"presence", [](auto& p) { p.presence_penalty = 1.5; }},
      {"frequency, window 3", [](auto& p) { p.frequency_penalty = 0.9, p.penalty_window = 3; }},
      {"frequency, whole context", [](auto& p) { p.frequency_penalty = -0.9, p.penalty_window = -1; }},
      {"bias",
       [](auto& p) {
         p.logit_bias = {{7, 6.0}, {8, -100.0}};
       }},
      {"all of them",
       [](auto& p) {
         p.temperature = 0.8, p.top_k = 60, p.typical_p = 0.95, p.top_p = 0.9, p.min_p = 0.02;
         p.repetition_penalty = 1.1, p.presence_penalty = 0.2, p.frequency_penalty = 0.1;
         p.logit_bias = {{7, 3.0}};
       }},
  };
  std::uint64_t seed = 100;
  for (const run& r : runs) {
    sampling_params p = plain(1);
    p.seed = ++seed;
    r.set(p);
    ASSERT_TRUE(validate(p, 200));
    check_distribution(p, logits, history, r.name);
  }
}

TEST(Sampler, GreedyIsTheArgmaxAfterBiasAndPenalties) {
  const std::vector<float> logits{1, 5, 4.9F, -2, 5};
  EXPECT_EQ(one(plain(0), logits), 1);
  sampling_params p = plain(0);
  p.repetition_penalty = 1.1;
  EXPECT_EQ(one(p, logits, {1}), 4);
  EXPECT_EQ(one(p, logits, {1, 4}), 2);
  p = plain(0);
  p.logit_bias = {{3, 100.0}};
  EXPECT_EQ(one(p, logits), 3);
  p.logit_bias = {{1, -100.0}, {4, -100.0}};
  EXPECT_EQ(one(p, logits), 2);
}

TEST(Sampler, RepetitionMultipliesNegativeLogits) {
  sampling_params p = plain(0);
  p.repetition_penalty = 2;
  EXPECT_EQ(one(p, {-1, -1.5F}, {0}), 1);
}

TEST(Sampler, PenaltiesSeeTheLastTokensOfTheWindow) {
  const std::vector<float> logits{3, 2, 1};
  sampling_params p = plain(0);
  p.presence_penalty = 5;
  std::vector<token_id> history{0, 1};
  for (int i = 0; i < 100; ++i) history.push_back(2);
  EXPECT_EQ(one(p, logits, history), 0);  // 64 by default: only token 2
  p.penalty_window = 101;
  EXPECT_EQ(one(p, logits, history), 0);
  p.penalty_window = 102;
  EXPECT_EQ(one(p, logits, history), 0);  // all alike: 3 - 5 is still the largest
  p.penalty_window = -1;
  p.frequency_penalty = -1;  // 2 was seen a hundred times
  EXPECT_EQ(one(p, logits, history), 2);
  p.penalty_window = 0;
  EXPECT_EQ(one(p, logits, history), 0);
}

// Counts of one call must not leak into the next, of another sampler with another vocabulary.
TEST(Sampler, PenaltyCountsAreOfThisCallAlone) {
  sampling_params p = plain(0);
  p.frequency_penalty = 1;
  const std::vector<float> logits{3, 2.5F, 0};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(one(p, logits, {0}), 1);
    EXPECT_EQ(one(p, logits, {}), 0);
    EXPECT_EQ(one(p, std::vector<float>(50, 1.0F), {0, 49}), 1);
  }
}

TEST(Sampler, ExcludesWhatIsNotFinite) {
  for (const float bad : {nan, inf, -inf}) {
    for (const std::size_t at : {0U, 25U, 49U}) {
      std::vector<float> logits(50, 1.0F);
      logits[30] = 2;
      logits[at] = bad;
      EXPECT_EQ(one(plain(0), logits), 30);
      sampling_params p = plain(1);
      p.seed = at;
      p.logit_bias = {{static_cast<token_id>(at), 100.0}};
      sampler s(p, 50, 0);
      for (int i = 0; i < 2000; ++i) ASSERT_NE(s.next(logits, {}, -1)->token, static_cast<token_id>(at));
      p.top_k = 5;
      sampler k(p, 50, 0);
      for (int i = 0; i < 2000; ++i) ASSERT_NE(k.next(logits, {}, -1)->token, static_cast<token_id>(at));
    }
  }
}

TEST(Sampler, NoFiniteLogitIsAnError) {
  for (const float bad : {nan, inf, -inf}) {
    const std::vector<float> logits(64, bad);
    for (const double temperature : {0.0, 1e-5, 1.0}) {
      sampling_params p;
      p.temperature = temperature;
      p.repetition_penalty = 1.1;
      sampler s(p, 64, 0);
      const auto r = s.next(logits, std::vector<token_id>{1, 2}, 5);
      ASSERT_FALSE(r);
      EXPECT_EQ(r.error().code, "no_finite_logit");
    }
  }
  sampler s(plain(1), 64, 0);
  EXPECT_EQ(s.next(std::vector<float>(63, 0.0F), {}, -1).error().code, "no_finite_logit");
}

TEST(Sampler, TinyTemperatureIsTheArgmax) {
  auto logits = some_logits(1000, 9);
  logits[500] = 80;
  logits[501] = std::numeric_limits<float>::lowest();
  for (const double temperature : {1e-5, 1e-30, 1e-300}) {
    sampling_params p = plain(temperature);
    sampler s(p, 1000, 3);
    for (int i = 0; i < 50; ++i) EXPECT_EQ(s.next(logits, {}, -1)->token, 500);
  }
}

TEST(Sampler, HugeLogitsStayFinite) {
  std::vector<float> logits(10, -3e38F);
  logits[4] = 3.3e38F;
  sampling_params p = plain(1);
  p.repetition_penalty = 0.01;  // beyond the largest float
  p.logit_bias = {{4, 1000.0}};
  EXPECT_EQ(one(p, logits, {4, 5}), 4);
}

TEST(Sampler, TheChoiceDependsOnSeedAndNumberAlone) {
  const auto logits = some_logits(500, 1);
  sampling_params p = plain(1);
  p.seed = 42;
  sampler a(p, 500, 1);
  sampler b(p, 500, 2);
  std::vector<token_id> first;
  for (int i = 0; i < 50; ++i) {
    first.push_back(a.next(logits, {}, -1)->token);
    EXPECT_EQ(b.next(logits, {}, 5)->token, first.back());
    sampler other(plain(1), 500, static_cast<std::uint64_t>(i));
    ASSERT_TRUE(other.next(logits, {}, -1));  // another's draws change nothing
  }
  p.seed = 43;
  sampler c(p, 500, 1);
  int same = 0;
  for (const token_id t : first) same += c.next(logits, {}, -1)->token == t ? 1 : 0;
  EXPECT_LT(same, 25);
  p.seed.reset();
  sampler d(p, 500, 42);
  EXPECT_EQ(d.next(logits, {}, -1)->token, first[0]);  // the caller's seed, where there is none
}

TEST(Sampler, LogProbabilitiesComeFromTheLogitsAsGiven) {
  auto logits = some_logits(3000, 2);
  logits[7] = nan;
  logits[8] = inf;
  sampling_params p;
  p.temperature = 0.1;
  p.top_k = 1;
  p.repetition_penalty = 1.9;
  p.logit_bias = {{11, 1000.0}};
  sampler s(p, 3000, 0);
  const auto r = s.next(logits, std::vector<token_id>{1, 2, 3}, 20);
  ASSERT_TRUE(r);
  EXPECT_EQ(r->token, 11);
  long double sum = 0;
  std::vector<std::pair<float, token_id>> order;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i])) continue;
    sum += std::exp(static_cast<long double>(logits[i]));
    order.emplace_back(-logits[i], static_cast<token_id>(i));
  }
  std::sort(order.begin(), order.end());
  const auto log_sum = static_cast<double>(std::log(sum));
  EXPECT_NEAR(r->logprob.logprob, logits[11] - log_sum, 1e-9);
  ASSERT_EQ(r->logprob.alternatives.size(), 20U);
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(r->logprob.alternatives[i].first, order[i].second);
    EXPECT_NEAR(r->logprob.alternatives[i].second, -order[i].first - log_sum, 1e-9);
  }
  EXPECT_TRUE(s.next(logits, {}, 0)->logprob.alternatives.empty());
  EXPECT_EQ(s.next(logits, {}, 1000)->logprob.alternatives.size(), 20U);
}

TEST(Sampler, LogProbabilitiesOfHugeLogits) {
  sampler s(plain(0), 3, 0);
  const auto r = s.next(std::vector<float>{3e38F, -3e38F, 3e38F}, {}, 3);
  EXPECT_NEAR(r->logprob.logprob, -std::log(2.0), 1e-12);
  EXPECT_TRUE(std::isfinite(r->logprob.alternatives[2].second));
}

}  // namespace
}  // namespace kvern
