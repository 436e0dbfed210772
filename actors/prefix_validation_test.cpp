#include "actors/prefix_validation.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace kvern::actors {
namespace {

using tokens = std::vector<token_id>;

void expect(const tokens& cached, const tokens& prompt, std::int64_t keep, cache_reason reason,
            std::optional<std::int64_t> divergence = {}) {
  const auto match = validate_prefix(cached, prompt);
  EXPECT_EQ(match.keep, keep);
  EXPECT_EQ(match.reason, reason);
  EXPECT_EQ(match.first_divergence, divergence);
}

TEST(prefix_validation, nothing_cached) { expect({}, {1, 2}, 0, cache_reason::empty); }

TEST(prefix_validation, the_prompt_continues_the_cache) { expect({1, 2}, {1, 2, 3}, 2, cache_reason::extends); }

TEST(prefix_validation, equal_runs_the_last_token_again) {
  expect({1, 2, 3}, {1, 2, 3}, 2, cache_reason::same);
  expect({1}, {1}, 0, cache_reason::same);
}

TEST(prefix_validation, a_shorter_prompt_rewinds) {
  expect({1, 2, 3, 4}, {1, 2}, 1, cache_reason::shorter);
  expect({1, 2, 3, 4}, {1}, 0, cache_reason::shorter);
}

TEST(prefix_validation, a_divergence_keeps_the_common_prefix) {
  expect({1, 2, 3, 4}, {1, 2, 9, 4, 5}, 2, cache_reason::mismatch, 2);
  expect({1, 2}, {2, 2}, 0, cache_reason::mismatch, 0);
  expect({1, 2, 3}, {1, 2, 4}, 2, cache_reason::mismatch, 2);
}

TEST(prefix_validation, kept_tokens_are_always_a_common_prefix_and_never_the_whole_prompt) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 2000; ++round) {
    tokens cached(random() % 6);
    tokens prompt(1 + random() % 6);
    for (auto& t : cached) t = static_cast<token_id>(random() % 2);
    for (auto& t : prompt) t = static_cast<token_id>(random() % 2);
    const auto match = validate_prefix(cached, prompt);
    std::size_t common = 0;
    while (common < cached.size() && common < prompt.size() && cached[common] == prompt[common]) ++common;
    EXPECT_EQ(match.keep, static_cast<std::int64_t>(std::min(common, prompt.size() - 1)));
    EXPECT_EQ(match.reason == cache_reason::mismatch, match.first_divergence.has_value());
    EXPECT_EQ(match.reason == cache_reason::empty, cached.empty());
    EXPECT_EQ(match.reason == cache_reason::same, !cached.empty() && cached == prompt);
  }
}

}  // namespace
}  // namespace kvern::actors
