#include "model/tokenizer/special_matcher.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace kvern {
namespace {

using matches = std::vector<special_match>;

vocabulary make(const std::vector<std::string_view>& texts, const std::vector<std::int64_t>& kinds) {
  auto made = vocabulary::create(texts, kinds, {});
  EXPECT_TRUE(made);
  return std::move(*made);
}

TEST(special_matcher, takes_control_tokens_only_from_trusted_bytes) {
  const vocabulary words = make({"<a>", "<u>", "<c>", "n"}, {3, 2, 4, 1});
  const special_matcher matcher(words, {});
  const std::string_view text = "<a><u><c>n<a>";
  EXPECT_EQ(matcher.find(text, {}), (matches{{6, 9, 2}}));
  const std::vector<byte_range> all{{0, text.size()}};
  EXPECT_EQ(matcher.find(text, all), (matches{{0, 3, 0}, {3, 6, 1}, {6, 9, 2}, {10, 13, 0}}));
  const std::vector<byte_range> some{{0, 2}, {3, 6}, {11, 13}};
  EXPECT_EQ(matcher.find(text, some), (matches{{3, 6, 1}, {6, 9, 2}}));
}

TEST(special_matcher, lets_the_longer_token_go_first) {
  const vocabulary words = make({"ab", "bcd", "abcde", "cdef"}, {4, 4, 4, 4});
  const special_matcher matcher(words, {});
  EXPECT_EQ(matcher.find("abcd", {}), (matches{{1, 4, 1}}));
  EXPECT_EQ(matcher.find("abcdef", {}), (matches{{0, 5, 2}}));
  EXPECT_EQ(matcher.find("abbcdef", {}), (matches{{0, 2, 0}, {3, 7, 3}}));
}

TEST(special_matcher, falls_back_to_a_shorter_token_where_the_longer_is_not_trusted) {
  const vocabulary words = make({"<x", "<x>"}, {3, 3});
  const special_matcher matcher(words, {});
  const std::vector<byte_range> trusted{{0, 2}};
  EXPECT_EQ(matcher.find("<x>", trusted), (matches{{0, 2, 0}}));
}

TEST(special_matcher, swallows_white_space_to_the_right) {
  const vocabulary words = make({"<a>", "<b>"}, {4, 4});
  const special_matcher matcher(words, {0});
  EXPECT_EQ(matcher.find("<a> \n\t<b> x<a> ", {}), (matches{{0, 6, 0}, {6, 9, 1}, {11, 15, 0}}));
}

/// What the rule says, in its plainest form.
matches reference(const vocabulary& words, std::string_view text, const std::vector<bool>& trusted,
                  const std::vector<token_id>& strip) {
  std::set<std::size_t, std::greater<>> lengths;
  for (token_id id = 0; id < words.size(); ++id) lengths.insert(words.text(id).size());
  std::vector<bool> taken(text.size());
  matches found;
  for (const std::size_t length : lengths) {
    for (std::size_t at = 0; at + length <= text.size(); ++at) {
      const token_id id = words.find(text.substr(at, length));
      if (id == no_token || words.kind(id) == token_kind::normal) continue;
      bool fits = true;
      for (std::size_t i = at; i < at + length; ++i) {
        if (taken[i] || (words.kind(id) == token_kind::control && !trusted[i])) fits = false;
      }
      if (!fits) continue;
      std::size_t end = at + length;
      if (std::ranges::find(strip, id) != strip.end()) {
        while (end < text.size() && !taken[end] && text[end] == ' ') ++end;
      }
      for (std::size_t i = at; i < end; ++i) taken[i] = true;
      found.push_back({at, end, id});
    }
  }
  std::ranges::sort(found, {}, &special_match::begin);
  return found;
}

TEST(special_matcher, agrees_with_the_rule_on_random_texts) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  const auto some_text = [&](std::size_t length) {
    std::string text;
    for (std::size_t i = 0; i < length; ++i) text += "ab <"[random() % 4];
    return text;
  };
  for (int round = 0; round < 400; ++round) {
    std::set<std::string> owned;
    for (auto i = 1 + random() % 12; i > 0; --i) owned.insert(some_text(1 + random() % 5));
    const std::vector<std::string_view> texts(owned.begin(), owned.end());
    std::vector<std::int64_t> kinds;
    std::vector<token_id> strip;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      kinds.push_back(std::array{1, 3, 4}[random() % 3]);
      if (random() % 4 == 0) strip.push_back(static_cast<token_id>(i));
    }
    const vocabulary words = make(texts, kinds);
    const special_matcher matcher(words, strip);
    const std::string text = some_text(random() % 60);
    std::vector<bool> flags(text.size());
    std::vector<byte_range> trusted;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min<std::size_t>(text.size(), at + 1 + random() % 20);
      const bool is_trusted = trusted.empty() || trusted.back().end < at;
      if (is_trusted) {
        trusted.push_back({at, end});
        std::fill(flags.begin() + static_cast<std::ptrdiff_t>(at), flags.begin() + static_cast<std::ptrdiff_t>(end),
                  true);
      }
      at = end;
    }
    ASSERT_EQ(matcher.find(text, trusted), reference(words, text, flags, strip)) << "round " << round;
  }
}

}  // namespace
}  // namespace kvern
