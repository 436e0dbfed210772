#include "model/tokenizer/spm_tokenizer.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "model/tokenizer/test_model.hpp"

namespace kvern {
namespace {

using tokens = std::vector<token_id>;
constexpr token_id first = 259;  // of the test model's own tokens

std::shared_ptr<const tokenizer> make(const test::test_model& model) {
  auto made = model.make();
  EXPECT_TRUE(made) << (made ? "" : made.error().message);
  return made ? *made : nullptr;
}

test::test_model no_prefix(const std::vector<test::scored_token>& list) {
  return test::spm_model(list).add("tokenizer.ggml.add_space_prefix", false);
}

TEST(spm_tokenizer, merges_by_score_and_not_by_place) {
  const auto t = make(no_prefix({{"a", -9}, {"b", -9}, {"c", -9}, {"ab", -2}, {"bc", -1}, {"abc", -3}}));
  EXPECT_EQ(t->encode("abc", false, false), (tokens{first + 5}));
  EXPECT_EQ(t->encode("abcc", false, false), (tokens{first + 5, first + 2}));
  EXPECT_EQ(t->encode("bcab", false, false), (tokens{first + 4, first + 3}));
}

TEST(spm_tokenizer, spells_what_is_no_token_in_bytes) {
  const auto t = make(no_prefix({{"a"}}));
  EXPECT_EQ(t->encode("a\u00E9\xFF", false, false), (tokens{first, 3 + 0xC3, 3 + 0xA9, 3 + 0xFF}));
  EXPECT_EQ(t->decode(tokens{first, 3 + 0xC3, 3 + 0xA9, 3 + 0xFF}, false), "a\u00E9\xFF");
}

TEST(spm_tokenizer, puts_a_space_at_the_start_and_after_special_tokens) {
  const auto t = make(test::spm_model({{"\u2581"}, {"a"}, {"\u2581a", 1}, {"<x>", 0, token_kind::control}}));
  EXPECT_EQ(t->encode("a", true, true), (tokens{1, first + 2}));
  EXPECT_EQ(t->encode("<x>a<x><x>a", false, true), (tokens{first + 3, first + 2, first + 3, first + 3, first + 2}));
  EXPECT_TRUE(t->encode("", false, true).empty()) << "an empty text stays empty";
  EXPECT_EQ(t->encode("", true, true), (tokens{1}));
  const auto bare = make(no_prefix({{"\u2581"}, {"a"}, {"\u2581a", 1}, {"<x>", 0, token_kind::control}}));
  EXPECT_EQ(bare->encode("<x>a", false, true), (tokens{first + 3, first + 1}));
}

TEST(spm_tokenizer, drops_the_space_it_put_in_front) {
  const auto t = make(test::spm_model({{"\u2581"}, {"a"}, {"\u2581a", 1}}));
  EXPECT_EQ(t->decode(t->encode(" a a", false, false), false), " a a");
  EXPECT_EQ(t->decode(tokens{first + 2, first + 2}, false), "a a");
  EXPECT_EQ(t->decode(tokens{1, first + 2}, false), "a");
  EXPECT_EQ(t->decode(tokens{1, first + 2}, true), "<s> a");
  EXPECT_EQ(t->piece(first + 2, false), " a") << "in the middle of a text the space counts";
}

TEST(spm_tokenizer, makes_no_control_or_byte_token_of_plain_text) {
  const auto t =
      make(no_prefix({{"<"}, {"s"}, {">"}, {"<s", 1}, {"<0x4"}, {"1"}, {"1>"}, {"0"}, {"x"}, {"4"}, {"<0"}, {"<0x"}}));
  for (const std::string_view text : {"<s>", "<0x41>"}) {
    const tokens ids = t->encode(text, false, false);
    EXPECT_GT(ids.size(), 1U);
    EXPECT_EQ(t->decode(ids, false), text);
  }
}

/// The definition: join the best pair, the leftmost of equals, until there is none.
std::vector<std::string> reference(std::string_view text, const std::map<std::string, float>& scores) {
  std::vector<std::string> parts;
  for (const char c : text) parts.emplace_back(1, c);
  while (true) {
    std::ptrdiff_t place = -1;
    float best = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = scores.find(parts[i] + parts[i + 1]);
      if (found != scores.end() && (place < 0 || found->second > best)) {
        best = found->second;
        place = static_cast<std::ptrdiff_t>(i);
      }
    }
    if (place < 0) return parts;
    parts[static_cast<std::size_t>(place)] += parts[static_cast<std::size_t>(place) + 1];
    parts.erase(parts.begin() + place + 1);
  }
}

TEST(spm_tokenizer, agrees_with_the_definition_on_random_scores) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 40; ++round) {
    std::map<std::string, float> scores{{"a", 0}, {"b", 0}, {"c", 0}};
    for (int i = 0; i < 40; ++i) {
      std::string text;
      for (auto n = 2 + random() % 5; n > 0; --n) text += "abc"[random() % 3];
      scores[text] = static_cast<float>(random() % 10);
    }
    std::vector<test::scored_token> list;
    for (const auto& [text, score] : scores) list.push_back({text, score});
    const auto t = make(no_prefix(list));
    for (int i = 0; i < 20; ++i) {
      std::string text;
      for (auto n = 1 + random() % 80; n > 0; --n) text += "abc"[random() % 3];
      std::vector<std::string> parts;
      for (const token_id id : t->encode(text, false, false)) parts.emplace_back(t->text(id));
      ASSERT_EQ(parts, reference(text, scores)) << text;
    }
  }
}

TEST(spm_tokenizer, gives_random_bytes_back) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  const auto t = make(test::spm_model({{"\u2581"}, {"a"}, {"\u2581a", 1}, {"aa", 2}, {"<x>", 0, token_kind::control}}));
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (auto i = random() % 100; i > 0; --i) {
      text += random() % 3 == 0 ? static_cast<char>(random()) : " a"[random() % 2];
    }
    if (text.contains("\u2581")) continue;  // comes back as a space
    ASSERT_EQ(t->decode(t->encode(text, false, false), false), text);
  }
}

}  // namespace
}  // namespace kvern
