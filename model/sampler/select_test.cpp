#include "model/sampler/select.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace kvern {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();

// The same by sorting everything.
std::vector<candidate> sorted(const std::vector<float>& logits) {
  std::vector<candidate> out;
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (std::isfinite(logits[i])) out.push_back({logits[i], static_cast<token_id>(i)});
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.logit > b.logit; });
  return out;
}

TEST(Argmax, LowestIdWinsTies) {
  std::vector<float> logits(5000, 1.0F);
  EXPECT_EQ(argmax(logits), 0);
  logits[4321] = 2;
  logits[4999] = 2;
  EXPECT_EQ(argmax(logits), 4321);
  logits[17] = 2;
  EXPECT_EQ(argmax(logits), 17);
}

TEST(Argmax, LeavesOutWhatIsNotFinite) {
  for (const std::size_t size : {1U, 2U, 31U, 32U, 33U, 1024U, 1025U, 5000U}) {
    for (const std::size_t bad : {std::size_t{0}, size / 2, size - 1}) {
      for (const float value : {nan, inf, -inf}) {
        std::vector<float> logits(size);
        for (std::size_t i = 0; i < size; ++i) logits[i] = -3.0F - static_cast<float>(i % 7);
        logits[bad] = value;
        const auto expected = sorted(logits);
        EXPECT_EQ(argmax(logits), expected.empty() ? -1 : expected[0].id) << size << " " << bad << " " << value;
      }
    }
  }
  EXPECT_EQ(argmax(std::vector<float>(100, -inf)), -1);
  EXPECT_EQ(argmax(std::vector<float>(100, inf)), -1);
  EXPECT_EQ(argmax(std::vector<float>(100, nan)), -1);
  EXPECT_EQ(argmax({}), -1);
  std::vector<float> lowest(100, nan);
  lowest[60] = std::numeric_limits<float>::lowest();
  EXPECT_EQ(argmax(lowest), 60);
}

TEST(TopK, IsTheFrontOfASort) {
  const std::uint32_t seed = 20240611;
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    std::vector<float> logits(1 + random() % 3000);
    const bool coarse = round % 3 == 0;  // many ties
    for (float& x : logits) {
      x = coarse ? static_cast<float>(random() % 5) : static_cast<float>(random()) * 0x1p-28F - 8;
      if (random() % 50 == 0) x = std::array{nan, inf, -inf}[random() % 3];
    }
    if (round % 7 == 0) std::sort(logits.begin(), logits.end());  // each enters
    const std::size_t k = 1 + random() % 100;
    auto expected = sorted(logits);
    expected.resize(std::min(expected.size(), k));
    std::vector<candidate> got;
    top_k(logits, k, got);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].id, expected[i].id) << round << " " << i;
      ASSERT_EQ(got[i].logit, expected[i].logit);
    }
    const token_id best = argmax(logits);
    ASSERT_EQ(best, expected.empty() ? -1 : expected[0].id);
  }
}

TEST(TopK, OfNothing) {
  std::vector<candidate> got{{1, 1}};
  top_k(std::vector<float>{1, 2}, 0, got);
  EXPECT_TRUE(got.empty());
  top_k({}, 5, got);
  EXPECT_TRUE(got.empty());
}

TEST(AllFinite, KeepsIds) {
  std::vector<candidate> got;
  all_finite(std::vector<float>{1, nan, inf, -inf, 2}, got);
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[0].id, 0);
  EXPECT_EQ(got[1].id, 4);
}

}  // namespace
}  // namespace kvern
