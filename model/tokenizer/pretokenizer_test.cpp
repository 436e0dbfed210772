#include "model/tokenizer/pretokenizer.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "base/utf8.hpp"

namespace kvern {
namespace {

using words = std::vector<std::string>;

words cut(std::vector<std::string_view> expressions, std::string_view text) {
  const auto made = pretokenizer::create(expressions);
  EXPECT_TRUE(made);
  words out;
  pretokenizer::session(*made).split(text, [&](std::string_view word) { out.emplace_back(word); });
  return out;
}

TEST(pretokenizer, gives_matches_and_what_lies_between) {
  EXPECT_EQ(cut({"[0-9]+"}, "ab12c3"), (words{"ab", "12", "c", "3"}));
  EXPECT_EQ(cut({"[0-9]+"}, ""), words{});
  EXPECT_EQ(cut({}, "all"), (words{"all"}));
}

TEST(pretokenizer, applies_each_expression_to_the_pieces_left) {
  EXPECT_EQ(cut({"-", "[a-z]"}, "ab-c"), (words{"a", "b", "-", "c"}));
  // The end of a piece is an end of text to the next expression, and so is its beginning.
  EXPECT_EQ(cut({"-", R"(a\z)", R"((?<!x)b)"}, "aa-xb-b"), (words{"a", "a", "-", "xb", "-", "b"}));
}

TEST(pretokenizer, takes_invalid_bytes_one_by_one) {
  EXPECT_EQ(cut({R"(\p{L}+)"}, "ab\xFF\xE2\x82z\xC3"), (words{"ab", "\xFF", "\xE2", "\x82", "z", "\xC3"}));
}

TEST(pretokenizer, passes_over_empty_matches) { EXPECT_EQ(cut({"(?=b)"}, "abab"), (words{"abab"})); }

TEST(pretokenizer, survives_an_expression_that_runs_away) {
  // Exponential for a backtracking matcher: the limit ends it, and the text stays whole.
  const std::string text(5000, 'a');
  std::string joined;
  for (const std::string& word : cut({"(?:(?:a|aa)+)+[bc]"}, text)) joined += word;
  EXPECT_EQ(joined, text);
}

TEST(pretokenizer, refuses_what_does_not_compile) {
  const std::vector<std::string_view> bad{"("};
  const auto made = pretokenizer::create(bad);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, "model_unsupported");
}

TEST(pretokenizer, loses_no_byte_of_random_text) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  const std::vector<std::string_view> expressions{R"(\s?\p{L}+)", R"(\p{N}|\s+(?!\S))", R"((?<!\s)\s++\z)"};
  const auto made = pretokenizer::create(expressions);
  ASSERT_TRUE(made);
  pretokenizer::session session(*made);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (auto i = random() % 200; i > 0; --i) {
      text += static_cast<char>(random() % 4 == 0 ? random() : " a1\n.\xC3\xA9"[random() % 7]);
    }
    std::string joined;
    session.split(text, [&](std::string_view word) {
      ASSERT_FALSE(word.empty());
      ASSERT_TRUE(word.size() == 1 || utf8_valid_prefix(word) == word.size());
      joined += word;
    });
    ASSERT_EQ(joined, text);
  }
}

TEST(expand_white_space, spells_out_white_space_inside_and_outside_classes) {
  const std::string list = R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
  EXPECT_EQ(expand_white_space(R"(\s+a)"), "[" + list + "]+a");
  EXPECT_EQ(expand_white_space(R"([^\sb]\\s)"), "[^" + list + R"(b]\\s)");
  EXPECT_EQ(expand_white_space(R"((?!\S)\[\s)"), "(?![^" + list + R"(])\[[)" + list + "]");
  EXPECT_EQ(cut({R"(\s+)"}, "a\u180E\u0085b"), (words{"a\u180E", "\u0085", "b"}));
}

}  // namespace
}  // namespace kvern
