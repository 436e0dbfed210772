#include "gpu/engine/prompt_lookup.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace kvern::gpu {
namespace {

struct guess {
  std::int32_t match = 0;
  std::vector<token_id> draft;
  friend bool operator==(const guess&, const guess&) = default;
};

guess look(const std::vector<token_id>& text, std::int32_t most) {
  prompt_lookup lookup;
  lookup.update(text);
  guess out;
  out.match = lookup.find(text, most, out.draft);
  return out;
}

/// Every earlier position tried, the later one of equals taken.
guess reference(const std::vector<token_id>& text, std::int32_t most) {
  guess out;
  std::size_t from = 0;
  for (std::size_t end = 1; end < text.size(); ++end) {
    std::int32_t length = 0;
    while (length < prompt_lookup::longest_match && static_cast<std::size_t>(length) < end &&
           text[end - 1 - static_cast<std::size_t>(length)] == text[text.size() - 1 - static_cast<std::size_t>(length)])
      ++length;
    if (length < prompt_lookup::shortest_match || length < out.match) continue;
    out.match = length;
    from = end;
  }
  std::vector<token_id> longer = text;
  for (std::int32_t i = 0; out.match > 0 && i < most; ++i) {
    out.draft.push_back(longer[from + static_cast<std::size_t>(i)]);
    longer.push_back(out.draft.back());
  }
  return out;
}

TEST(PromptLookup, GoesOnAsTheLongestMatchDid) {
  // "1 2 3" stood once, "2 3" twice.
  EXPECT_EQ(look({1, 2, 3, 4, 5, 9, 2, 3, 7, 1, 2, 3}, 3), (guess{3, {4, 5, 9}}));
  EXPECT_EQ(look({1, 2, 3, 4, 5, 9, 2, 3, 7, 8, 2, 3}, 2), (guess{2, {7, 8}})) << "the latest of equals";
}

TEST(PromptLookup, RepeatsWhatRunsIntoTheEnd) {
  EXPECT_EQ(look({5, 1, 2, 1, 2}, 5), (guess{2, {1, 2, 1, 2, 1}}));
  EXPECT_EQ(look({7, 7, 7, 7}, 3), (guess{3, {7, 7, 7}}));
}

TEST(PromptLookup, HasNothingWhereNothingRepeats) {
  EXPECT_EQ(look({}, 4), guess{});
  EXPECT_EQ(look({1}, 4), guess{});
  EXPECT_EQ(look({1, 1}, 4), guess{});
  EXPECT_EQ(look({1, 2, 3, 4, 3}, 4), guess{}) << "one token is no match";
  EXPECT_EQ(look({1, 2, 1, 2}, 0), guess{});
}

TEST(PromptLookup, EqualsASearchOfTheWholeTextHoweverItGrows) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 30; ++round) {
    const auto vocab = 12 + static_cast<token_id>(random() % 40);
    std::vector<token_id> text;
    prompt_lookup lookup;
    while (text.size() < 700) {
      const std::size_t more = 1 + random() % 40;
      // Copies of what was said among new tokens.
      const std::size_t from = random() % (text.size() + 1);
      for (std::size_t i = 0; i < more; ++i)
        text.push_back(round % 2 == 0 && from + i < text.size() ? text[from + i]
                                                                : static_cast<token_id>(random() % 9999) % vocab);
      lookup.update(text);
      guess found;
      const auto most = static_cast<std::int32_t>(random() % 30 + 1);
      found.match = lookup.find(text, most, found.draft);
      const guess expected = reference(text, most);
      // Of more occurrences than are looked at the latest count.
      const auto occurrences = std::count(text.begin(), text.end(), text.back());
      if (occurrences <= 30) {
        ASSERT_EQ(found, expected) << text.size();
      }
      ASSERT_LE(found.match, expected.match);
      ASSERT_EQ(std::ssize(found.draft), found.match > 0 ? most : 0);
    }
  }
}

}  // namespace
}  // namespace kvern::gpu
