#include "model/tokenizer/special_ids.hpp"

#include <gtest/gtest.h>

#include "model/tokenizer/test_model.hpp"

namespace kvern {
namespace {

using tokens = std::vector<token_id>;
using texts = std::vector<std::string_view>;

vocabulary words_of(const texts& list, const std::vector<std::int64_t>& kinds) {
  auto made = vocabulary::create(list, kinds, {});
  EXPECT_TRUE(made);
  return std::move(*made);
}

test::test_model file() { return test::test_model().add("general.name", "x"); }

TEST(special_ids, takes_what_the_file_states) {
  vocabulary words = words_of({"a", "<b>", "<e>", "<t>", "<m>"}, {1, 3, 3, 3, 3});
  const auto ids = resolve_special_ids(*file()
                                            .add("tokenizer.ggml.bos_token_id", 1U)
                                            .add("tokenizer.ggml.eos_token_id", 2U)
                                            .add("tokenizer.ggml.eot_token_id", 3U)
                                            .add("tokenizer.ggml.eom_token_id", 4U)
                                            .add("tokenizer.ggml.unknown_token_id", 0U)
                                            .add("tokenizer.ggml.add_bos_token", true)
                                            .add("tokenizer.ggml.add_eos_token", true)
                                            .open(),
                                       {}, words);
  ASSERT_TRUE(ids);
  EXPECT_EQ(ids->bos, 1);
  EXPECT_EQ(ids->eos, 2);
  EXPECT_EQ(ids->unknown, 0);
  EXPECT_TRUE(ids->add_bos);
  EXPECT_TRUE(ids->add_eos);
  EXPECT_EQ(ids->ends, (tokens{2, 3, 4}));
}

TEST(special_ids, refuses_a_stated_id_outside_the_vocabulary) {
  for (const char* key : {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.unknown_token_id"}) {
    vocabulary words = words_of({"a", "b"}, {});
    const auto ids = resolve_special_ids(*file().add(key, 2U).open(), {}, words);
    ASSERT_FALSE(ids) << key;
    EXPECT_EQ(ids.error().code, "model_invalid");
    EXPECT_TRUE(ids.error().message.contains(key)) << ids.error().message;
  }
}

TEST(special_ids, reads_minus_one_as_none) {
  vocabulary words = words_of({"a", "<b>"}, {1, 3});
  const auto ids =
      resolve_special_ids(*file().add("tokenizer.ggml.bos_token_id", 0xFFFFFFFFU).open(), {.bos = 1}, words);
  ASSERT_TRUE(ids);
  EXPECT_EQ(ids->bos, std::nullopt);
}

TEST(special_ids, drops_defaults_that_do_not_fit) {
  vocabulary words = words_of({"a", "<b>", "word"}, {1, 3, 1});
  const auto ids =
      resolve_special_ids(*file().open(), {.bos = 1, .eos = 2, .unknown = 11, .add_bos = true, .add_eos = true}, words);
  ASSERT_TRUE(ids);
  EXPECT_EQ(ids->bos, 1);
  EXPECT_EQ(ids->eos, std::nullopt) << "a plain word must not end answers";
  EXPECT_EQ(ids->unknown, std::nullopt);
  EXPECT_TRUE(ids->add_bos);
  EXPECT_FALSE(ids->add_eos) << "there is none to add";
  EXPECT_TRUE(ids->ends.empty());
}

TEST(special_ids, takes_no_control_token_as_unknown) {
  vocabulary words = words_of({"a", "<|endoftext|>", "<unk>"}, {1, 3, 2});
  EXPECT_EQ(resolve_special_ids(*file().add("tokenizer.ggml.unknown_token_id", 1U).open(), {}, words)->unknown,
            std::nullopt);
  EXPECT_EQ(resolve_special_ids(*file().add("tokenizer.ggml.unknown_token_id", 2U).open(), {}, words)->unknown, 2);
}

TEST(special_ids, knows_ends_and_control_tokens_by_their_text) {
  vocabulary words = words_of({"a", "<|im_end|>", "<|endoftext|>", "<end_of_turn>", "<|end|>", "<|fim_prefix|>", "<x>"},
                              {1, 1, 3, 4, 3, 4, 3});
  const auto ids = resolve_special_ids(*file().open(), {}, words);
  ASSERT_TRUE(ids);
  EXPECT_EQ(ids->ends, (tokens{1, 2, 3, 4}));
  EXPECT_EQ(words.kind(1), token_kind::control);
  EXPECT_EQ(words.kind(3), token_kind::control);
  EXPECT_EQ(words.kind(5), token_kind::control);
}

TEST(special_ids, minds_the_company_of_an_end) {
  vocabulary harmony = words_of({"<|end|>", "<|return|>", "<|call|>"}, {3, 3, 3});
  EXPECT_EQ(resolve_special_ids(*file().open(), {}, harmony)->ends, (tokens{1, 2}));
  vocabulary gemma4 = words_of({"</s>", "<|tool_response>", "<turn|>"}, {1, 3, 3});
  EXPECT_EQ(resolve_special_ids(*file().open(), {}, gemma4)->ends, (tokens{1, 2}));
  EXPECT_EQ(gemma4.kind(0), token_kind::normal);
  vocabulary usual = words_of({"</s>"}, {1});
  EXPECT_EQ(resolve_special_ids(*file().open(), {}, usual)->ends, (tokens{0}));
}

}  // namespace
}  // namespace kvern
