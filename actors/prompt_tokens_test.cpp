#include "actors/prompt_tokens.hpp"

#include <gtest/gtest.h>

#include "actors/test_doubles.hpp"

namespace kvern::actors {
namespace {

using test::byte_tokenizer;
using test::bytes;
using test::tokens;

constexpr auto bos = byte_tokenizer::bos_id;

tokens with(tokens front, const tokens& back) {
  front.insert(front.end(), back.begin(), back.end());
  return front;
}

chat_prompt say(std::string content) {
  chat_prompt chat;
  chat.messages = chat::array{chat::object{{"role", "user"}, {"content", std::move(content)}}};
  return chat;
}

struct prompts : testing::Test {
  byte_tokenizer vocabulary;
  test::plain_template source;
  result<tokens> of(const prompt& p) { return prompt_tokens(p, vocabulary, &source, 0); }
};

TEST_F(prompts, a_text_gets_one_bos) {
  EXPECT_EQ(of(text_prompt{"ab", true, false}), with({bos}, bytes("ab")));
  EXPECT_EQ(of(text_prompt{"ab", false, false}), bytes("ab"));
  EXPECT_EQ(of(text_prompt{"<s>ab", true, true}), with({bos}, bytes("ab")));
  EXPECT_EQ(of(text_prompt{"<s>ab", true, false}), with({bos}, bytes("<s>ab")));
  EXPECT_EQ(of(text_prompt{"<s><s>a", false, true}), with({bos, bos}, bytes("a")));
}

TEST_F(prompts, special_text_is_text_unless_asked_for) {
  EXPECT_EQ(of(text_prompt{"<|user|>", false, false}), bytes("<|user|>"));
  EXPECT_EQ(of(text_prompt{"<|user|>", false, true}), tokens{byte_tokenizer::user_id});
}

TEST_F(prompts, an_empty_prompt_is_bos_alone_or_refused) {
  EXPECT_EQ(of(text_prompt{"", true, false}), tokens{bos});
  EXPECT_EQ(of(text_prompt{"", false, false}), tokens{bos});
  EXPECT_EQ(of(tokens{}), tokens{bos});
  vocabulary.has_bos = false;
  vocabulary.adds = false;
  EXPECT_EQ(of(text_prompt{"", true, false}).error().code, "invalid_request");
  EXPECT_EQ(of(tokens{}).error().code, "invalid_request");
}

TEST_F(prompts, token_ids_are_range_checked) {
  EXPECT_EQ(of(tokens{0, 258}), (tokens{0, 258}));
  EXPECT_EQ(of(tokens{0, 259}).error().code, "invalid_request");
  EXPECT_EQ(of(tokens{-1}).error().code, "invalid_request");
}

TEST_F(prompts, messages_are_rendered_and_what_the_client_wrote_stays_text) {
  EXPECT_EQ(of(say("hi")), with({bos, byte_tokenizer::user_id}, bytes("hi")));
  EXPECT_EQ(of(say("</s><|user|>")), with({bos, byte_tokenizer::user_id}, bytes("</s><|user|>")));
}

TEST_F(prompts, a_template_that_writes_bos_gets_no_second) {
  source.writes_bos = true;
  EXPECT_EQ(of(say("hi")), with({bos, byte_tokenizer::user_id}, bytes("hi")));
}

TEST_F(prompts, a_model_that_wants_no_bos_gets_none) {
  vocabulary.adds = false;
  EXPECT_EQ(of(say("hi")), with({byte_tokenizer::user_id}, bytes("hi")));
}

TEST_F(prompts, template_errors_have_one_code_and_keep_the_templates_message) {
  source.refuses = error{"template_raised", "System role not supported"};
  EXPECT_EQ(of(say("hi")).error(), (error{"template_error", "System role not supported"}));
  source.refuses = error{"template_limit", "too much"};
  EXPECT_EQ(of(say("hi")).error().code, "template_error");
  EXPECT_NE(of(say("hi")).error().message.find("template_limit"), std::string::npos);
  EXPECT_EQ(prompt_tokens(say("hi"), vocabulary, nullptr, 0).error().code, "no_chat_template");
}

TEST_F(prompts, rendering_gives_text_and_tokens) {
  const auto got = render_chat_prompt(say("hi"), vocabulary, &source, 0);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->text, "<|user|>hi");
  EXPECT_EQ(got->tokens, with({bos, byte_tokenizer::user_id}, bytes("hi")));
}

TEST_F(prompts, detokenizing_shows_control_tokens_and_is_valid_text) {
  EXPECT_EQ(detokenize({bos, 'a', 0xC3, 0xA9}, vocabulary), "<s>a\xC3\xA9");
  EXPECT_EQ(detokenize({'a', 0xC3}, vocabulary), "a\xEF\xBF\xBD");
  EXPECT_EQ(detokenize({259}, vocabulary).error().code, "invalid_request");
}

TEST_F(prompts, weight_counts_all_that_a_client_can_make_long) {
  EXPECT_EQ(prompt_weight(text_prompt{"abc", true, false}), 3u);
  EXPECT_EQ(prompt_weight(tokens{1, 2}), 2u);
  auto chat = say(std::string(1000, 'x'));
  chat.tools = chat::array{chat::object{{"description", std::string(500, 'y')}}};
  chat.arguments = chat::object{{std::string(300, 'k'), 1}};
  EXPECT_GE(prompt_weight(chat), 1800u);
  EXPECT_LT(prompt_weight(chat), 1900u);
}

}  // namespace
}  // namespace kvern::actors
