#include "model/tokenizer/tokenizer.hpp"

#include <gtest/gtest.h>

#include "model/tokenizer/test_model.hpp"

namespace kvern {
namespace {

using tokens = std::vector<token_id>;
using texts = std::vector<std::string>;

void expect_refused(const test::test_model& model, std::string_view code, std::string_view named) {
  const auto made = model.make();
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, code);
  EXPECT_TRUE(made.error().message.contains(named)) << made.error().message;
}

TEST(tokenizer, refuses_tokenizers_it_does_not_know_by_name) {
  for (const char* name : {"bert", "t5", "rwkv", "plamo2", "none", "no_vocab", ""}) {
    test::test_model model;
    model.add("tokenizer.ggml.model", name).add("tokenizer.ggml.tokens", texts{"a"});
    expect_refused(model, "model_unsupported", std::string("'") + name + "'");
  }
}

TEST(tokenizer, refuses_pre_tokenizers_it_does_not_know_by_name) {
  expect_refused(test::byte_bpe_model({}, {}, "made-up"), "model_unsupported", "'made-up'");
  expect_refused(test::byte_bpe_model({}, {}, "bad\n\x01name"), "model_unsupported", "'bad??name'");
}

TEST(tokenizer, takes_a_file_without_pre_tokenizer_as_default) {
  test::test_model model;
  model.add("tokenizer.ggml.model", "gpt2")
      .add("tokenizer.ggml.tokens", texts{"1", "2", "12"})
      .add("tokenizer.ggml.merges", texts{"1 2"});
  const auto made = model.make();
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ((*made)->encode("12", false, false), (tokens{2}));
}

TEST(tokenizer, refuses_files_that_lack_what_it_needs) {
  expect_refused(test::test_model().add("general.name", "x"), "model_invalid", "tokenizer.ggml.model");
  test::test_model no_tokens;
  no_tokens.add("tokenizer.ggml.model", "llama");
  expect_refused(no_tokens, "model_invalid", "tokenizer.ggml.tokens");
  test::test_model no_merges;
  no_merges.add("tokenizer.ggml.model", "gpt2").add("tokenizer.ggml.tokens", texts{"a"});
  expect_refused(no_merges, "model_invalid", "tokenizer.ggml.merges");
  test::test_model no_scores;
  no_scores.add("tokenizer.ggml.model", "llama").add("tokenizer.ggml.tokens", texts{"a"});
  expect_refused(no_scores, "model_invalid", "tokenizer.ggml.scores");
}

TEST(tokenizer, refuses_arrays_of_the_wrong_length) {
  test::test_model scores;
  scores.add("tokenizer.ggml.model", "llama")
      .add("tokenizer.ggml.tokens", texts{"a", "b"})
      .add("tokenizer.ggml.scores", std::vector<float>{0});
  expect_refused(scores, "model_invalid", "tokenizer.ggml.scores");
  test::test_model kinds;
  kinds.add("tokenizer.ggml.model", "gpt2")
      .add("tokenizer.ggml.tokens", texts{"a", "b"})
      .add("tokenizer.ggml.merges", texts{})
      .add("tokenizer.ggml.token_type", std::vector<std::int32_t>{1, 1, 1});
  expect_refused(kinds, "model_invalid", "tokenizer.ggml.token_type");
}

TEST(tokenizer, refuses_special_ids_outside_the_vocabulary) {
  test::test_model model = test::byte_bpe_model({}, {});
  model.add("tokenizer.ggml.eos_token_id", 256U);
  expect_refused(model, "model_invalid", "tokenizer.ggml.eos_token_id");
}

TEST(tokenizer, outlives_the_file) {
  std::shared_ptr<const tokenizer> t;
  {
    const auto file = test::byte_bpe_model({"h i"}, {{"<|im_end|>"}}).open();
    t = *tokenizer::create(*file);
  }
  EXPECT_EQ(t->encode("hi<|im_end|>", false, true), (tokens{256, 257}));
  EXPECT_TRUE(t->is_end(257));
  EXPECT_EQ(t->text(256), "hi");
}

TEST(tokenizer, strips_white_space_after_the_special_tokens_of_phi3) {
  const std::vector<test::scored_token> list{{"\u2581"},
                                             {"H"},
                                             {"i"},
                                             {"Hi", 1},
                                             {"<|user|>", 0, token_kind::control},
                                             {"<|endoftext|>", 0, token_kind::control}};
  constexpr token_id first = 259;
  constexpr token_id line_end = 3 + '\n';
  for (const char* name : {"Phi-3-mini", "my PHI3"}) {
    const auto t = test::spm_model(list).add("general.name", name).make();
    ASSERT_TRUE(t);
    EXPECT_EQ((*t)->encode("<|user|>\nHi", false, true), (tokens{first + 4, first, first + 3})) << name;
    EXPECT_EQ((*t)->encode("<|endoftext|>\nHi", false, true), (tokens{first + 5, first, line_end, first + 3})) << name;
  }
  const auto other = test::spm_model(list).add("general.name", "other").make();
  ASSERT_TRUE(other);
  EXPECT_EQ((*other)->encode("<|user|>\nHi", false, true), (tokens{first + 4, first, line_end, first + 3}));
}

TEST(tokenizer, puts_no_second_bos_into_a_rendered_prompt) {
  test::test_model model = test::byte_bpe_model({}, {{"<|begin_of_text|>"}}, "llama-bpe");
  model.add("tokenizer.ggml.bos_token_id", 256U);
  const auto t = model.make();
  ASSERT_TRUE(t);
  EXPECT_TRUE((*t)->adds_bos());
  // A template brings its own BOS: add_special is off for it.
  EXPECT_EQ((*t)->encode("<|begin_of_text|>a", false, true), (tokens{256, 'a'}));
  EXPECT_EQ((*t)->encode("", true, true), (tokens{256})) << "an empty prompt is BOS only";
}

}  // namespace
}  // namespace kvern
