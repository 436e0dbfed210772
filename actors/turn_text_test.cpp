#include "actors/turn_text.hpp"

#include <gtest/gtest.h>

#include <random>

#include "actors/test_doubles.hpp"

namespace kvern::actors {
namespace {

using test::byte_tokenizer;
using test::bytes;
using test::tokens;

struct collected {
  std::string text;
  tokens ids;
  void add(const text_event& event) {
    text += event.text;
    for (const auto& token : event.tokens) ids.push_back(token.token);
  }
};

struct turn_texts : testing::Test {
  std::shared_ptr<byte_tokenizer> vocabulary = std::make_shared<byte_tokenizer>();
  turn_text make(std::vector<std::string> stops = {}) {
    return turn_text(vocabulary, std::move(*stop_matcher::create(std::move(stops))));
  }
};

TEST_F(turn_texts, plain_tokens_come_at_once_with_their_bytes_and_probabilities) {
  auto text = make();
  const auto event = text.push('a', {-0.25, {{'a', -0.25}}});
  EXPECT_EQ(event.text, "a");
  ASSERT_EQ(event.tokens.size(), 1u);
  EXPECT_EQ(event.tokens[0].token, 'a');
  EXPECT_EQ(event.tokens[0].bytes, "a");
  EXPECT_EQ(event.tokens[0].logprob.logprob, -0.25);
  EXPECT_EQ(event.tokens[0].logprob.alternatives.size(), 1u);
}

TEST_F(turn_texts, a_character_over_several_tokens_comes_whole_with_all_of_them) {
  auto text = make();
  collected got;
  for (const auto id : bytes("\xF0\x9F\x98")) {
    const auto event = text.push(id, {});
    EXPECT_TRUE(event.text.empty());
    EXPECT_TRUE(event.tokens.empty());
  }
  const auto event = text.push(0x80, {});
  EXPECT_EQ(event.text, "\xF0\x9F\x98\x80");
  EXPECT_EQ(event.tokens.size(), 4u);
  EXPECT_EQ(event.tokens[1].bytes, "\x9F");
}

TEST_F(turn_texts, a_token_that_ends_one_character_and_begins_another_waits_for_the_other) {
  vocabulary->pieces = {"a\xC3",
                        "\xA9"
                        "b\xC3"};
  auto text = make();
  auto event = text.push(byte_tokenizer::first_piece, {});
  EXPECT_EQ(event.text, "a");
  EXPECT_TRUE(event.tokens.empty());
  event = text.push(byte_tokenizer::first_piece + 1, {});
  EXPECT_EQ(event.text,
            "\xC3\xA9"
            "b");
  ASSERT_EQ(event.tokens.size(), 1u);
  EXPECT_EQ(event.tokens[0].token, byte_tokenizer::first_piece);
  event = text.push(0xA8, {});
  EXPECT_EQ(event.text, "\xC3\xA8");
  EXPECT_EQ(event.tokens.size(), 2u);
}

TEST_F(turn_texts, an_unfinished_character_at_the_end_is_one_replacement_with_its_tokens) {
  auto text = make();
  text.push(0xF0, {});
  text.push(0x9F, {});
  const auto event = text.finish();
  EXPECT_EQ(event.text, "\xEF\xBF\xBD");
  EXPECT_EQ(event.tokens.size(), 2u);
}

TEST_F(turn_texts, a_stop_string_over_tokens_keeps_them_all_back) {
  auto text = make({"O P Q"});
  collected got;
  for (const auto id : bytes("N O P Q R")) got.add(text.push(id, {}));
  got.add(text.finish());
  EXPECT_EQ(got.text, "N ");
  EXPECT_EQ(got.ids, bytes("N "));
  EXPECT_EQ(text.stop_string(), "O P Q");
}

TEST_F(turn_texts, a_token_partly_before_the_stop_string_gives_its_text_but_is_not_kept) {
  vocabulary->pieces = {"end\n\n"};
  auto text = make({"\n\n"});
  collected got;
  got.add(text.push('x', {}));
  got.add(text.push(byte_tokenizer::first_piece, {}));
  EXPECT_EQ(got.text, "xend");
  EXPECT_EQ(got.ids, bytes("x"));
}

TEST_F(turn_texts, what_was_held_for_a_stop_string_comes_at_the_end) {
  auto text = make({"abc"});
  EXPECT_TRUE(text.push('a', {}).tokens.empty());
  EXPECT_TRUE(text.push('b', {}).tokens.empty());
  const auto event = text.finish();
  EXPECT_EQ(event.text, "ab");
  EXPECT_EQ(event.tokens.size(), 2u);
  EXPECT_FALSE(text.stop_string());
}

TEST_F(turn_texts, a_token_without_text_comes_in_its_place) {
  auto text = make({"abc"});
  EXPECT_EQ(text.push(byte_tokenizer::eos_id, {}).tokens.size(), 1u);
  EXPECT_TRUE(text.push('a', {}).tokens.empty());
  EXPECT_TRUE(text.push(byte_tokenizer::eos_id, {}).tokens.empty());
  const auto event = text.push('x', {});
  EXPECT_EQ(event.text, "ax");
  EXPECT_EQ(event.tokens.size(), 3u);
}

TEST_F(turn_texts, any_tokens_give_valid_text_and_in_the_end_all_of_them_in_order) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  vocabulary->pieces = {"ab", "\xC3\xA9", "\x9F\x98", "b\xF0", "", "aab"};
  const tokens choice = {'a', 'b', 0xC3, 0xA9, 0xF0, 0x9F, 0x98, 0x80, 0xFF, byte_tokenizer::eos_id,
                         259, 260, 261,  262,  263,  264};
  for (int round = 0; round < 2000; ++round) {
    auto text = make({"bbab",
                      "\xC3\xA9"
                      "a"});
    tokens pushed;
    collected got;
    detokenizer reference(vocabulary);
    std::string whole;
    for (std::size_t i = 0; i < 12; ++i) {
      pushed.push_back(choice[random() % choice.size()]);
      whole += reference.push(pushed.back());
      got.add(text.push(pushed.back(), {}));
      ASSERT_TRUE(whole.starts_with(got.text));
      ASSERT_EQ(got.ids, tokens(pushed.begin(), pushed.begin() + std::ssize(got.ids)));
    }
    whole += reference.flush();
    got.add(text.finish());
    if (const auto& stop = text.stop_string()) {
      ASSERT_TRUE(whole.starts_with(got.text + *stop));
    } else {
      ASSERT_EQ(got.text, whole);
      ASSERT_EQ(got.ids, pushed);
    }
  }
}

}  // namespace
}  // namespace kvern::actors
