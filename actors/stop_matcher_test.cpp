#include "actors/stop_matcher.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

namespace kvern::actors {
namespace {

stop_matcher matcher(std::vector<std::string> stops) {
  auto made = stop_matcher::create(std::move(stops));
  EXPECT_TRUE(made.has_value());
  return std::move(*made);
}

/// What the contract says, found the slow way.
struct reference {
  std::string text;
  std::optional<std::string> met;

  reference(const std::string& whole, const std::vector<std::string>& stops) : text(whole) {
    for (std::size_t end = 1; end <= whole.size() && !met; ++end) {
      for (const auto& stop : stops) {
        const bool here = end >= stop.size() && whole.compare(end - stop.size(), stop.size(), stop) == 0;
        if (here && (!met || stop.size() > met->size())) met = stop;
      }
      if (met) text = whole.substr(0, end - met->size());
    }
  }
};

TEST(stop_matcher, without_stops_everything_is_certain) {
  stop_matcher m;
  EXPECT_EQ(m.push("abc"), "abc");
  EXPECT_EQ(m.held(), 0u);
  EXPECT_EQ(m.finish(), "");
  EXPECT_FALSE(m.met());
}

TEST(stop_matcher, a_stop_string_over_several_pieces) {
  auto m = matcher({"O P Q"});
  EXPECT_EQ(m.push("L M N"), "L M N");
  EXPECT_EQ(m.push(" O"), " ");
  EXPECT_EQ(m.push(" P"), "");
  EXPECT_EQ(m.held(), 3u);
  EXPECT_EQ(m.push(" Q R"), "");
  EXPECT_EQ(m.met(), "O P Q");
  EXPECT_EQ(m.push("more"), "");
  EXPECT_EQ(m.finish(), "");
}

TEST(stop_matcher, text_that_turns_out_to_be_no_stop_is_given_out) {
  auto m = matcher({"<end>"});
  EXPECT_EQ(m.push("a<e"), "a");
  EXPECT_EQ(m.push("n"), "");
  EXPECT_EQ(m.push("<"), "<en");
  EXPECT_EQ(m.finish(), "<");
  EXPECT_FALSE(m.met());
}

TEST(stop_matcher, what_ends_first_counts_and_then_the_longest) {
  auto first = matcher({"abcd", "bc"});
  EXPECT_EQ(first.push("xabcd"), "xa");
  EXPECT_EQ(first.met(), "bc");
  auto longest = matcher({"bc", "abc"});
  EXPECT_EQ(longest.push("xabcd"), "x");
  EXPECT_EQ(longest.met(), "abc");
}

TEST(stop_matcher, a_match_that_begins_inside_a_failed_one) {
  auto m = matcher({"aab"});
  EXPECT_EQ(m.push("a"), "");
  EXPECT_EQ(m.push("a"), "");
  EXPECT_EQ(m.push("a"), "a");
  EXPECT_EQ(m.push("b"), "");
  EXPECT_EQ(m.met(), "aab");
}

TEST(stop_matcher, refuses_what_cannot_be_a_stop_string) {
  EXPECT_EQ(stop_matcher::create({""}).error().code, "invalid_request");
  EXPECT_EQ(stop_matcher::create(std::vector<std::string>(17, "x")).error().code, "invalid_request");
  EXPECT_EQ(stop_matcher::create({std::string(stop_matcher::max_bytes + 1, 'x')}).error().code, "invalid_request");
  EXPECT_EQ(stop_matcher::create({"\x98\x80"}).error().code, "invalid_request");
  EXPECT_TRUE(stop_matcher::create(std::vector<std::string>(16, "x")).has_value());
  EXPECT_TRUE(stop_matcher::create({std::string(stop_matcher::max_bytes, 'x')}).has_value());
}

TEST(stop_matcher, any_text_cut_anywhere_gives_what_the_slow_way_gives) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto word = [&](std::size_t longest) {
    std::string made(1 + random() % longest, 'a');
    for (auto& c : made) c = static_cast<char>('a' + random() % 2);
    return made;
  };
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops(1 + random() % 3);
    for (auto& stop : stops) stop = word(6);
    const auto whole = word(20);
    const reference wanted(whole, stops);
    auto m = matcher(stops);
    std::string got;
    for (std::size_t at = 0; at < whole.size();) {
      const auto length = std::min<std::size_t>(1 + random() % 4, whole.size() - at);
      got += m.push(std::string_view(whole).substr(at, length));
      // Never more than is certain.
      ASSERT_TRUE(wanted.text.starts_with(got));
      at += length;
    }
    got += m.finish();
    ASSERT_EQ(got, wanted.text);
    ASSERT_EQ(m.met(), wanted.met);
  }
}

TEST(stop_matcher, takes_time_linear_in_the_text) {
  // The worst text for a matcher that starts over: every position almost matches.
  const std::string stop = std::string(4000, 'a') + "b";
  const auto seconds = [&](std::size_t bytes) {
    auto m = matcher({stop});
    std::size_t out = 0;
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < bytes; ++i) out += m.push("a").size();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(out + m.held(), bytes);
    return took.count();
  };
  seconds(50'000);
  const auto once = seconds(200'000);
  const auto twice = seconds(400'000);
  EXPECT_LT(twice / once, 4.0);
}

}  // namespace
}  // namespace kvern::actors
