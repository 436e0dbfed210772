#include "model/tokenizer/vocabulary.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model/tokenizer/test_model.hpp"

namespace kvern {
namespace {

TEST(vocabulary, finds_each_token_by_its_text) {
  std::vector<std::string> owned;
  for (int i = 0; i < 5000; ++i) owned.push_back(fmt::format("token{}", i));
  const std::vector<std::string_view> texts(owned.begin(), owned.end());
  const auto words = vocabulary::create(texts, {}, {});
  ASSERT_TRUE(words);
  EXPECT_EQ(words->size(), 5000);
  EXPECT_EQ(words->longest_text(), 9U);
  EXPECT_FALSE(words->states_kinds());
  for (token_id id = 0; id < 5000; ++id) {
    EXPECT_EQ(words->find(texts[static_cast<std::size_t>(id)]), id);
    EXPECT_EQ(words->text(id), texts[static_cast<std::size_t>(id)]);
  }
  EXPECT_EQ(words->find("token5000"), no_token);
  EXPECT_EQ(words->find("a text longer than any token"), no_token);
  EXPECT_EQ(words->find(""), no_token);
}

TEST(vocabulary, keeps_plain_text_from_becoming_special) {
  const auto words = vocabulary::create({"n", "u", "c", "d", "x", "<0x41>", "odd"}, {1, 2, 3, 4, 5, 6, 77}, {});
  ASSERT_TRUE(words);
  for (const std::string_view text : {"n", "d", "x", "odd"}) EXPECT_NE(words->find_ordinary(text), no_token) << text;
  for (const std::string_view text : {"u", "c", "<0x41>"}) {
    EXPECT_NE(words->find(text), no_token) << text;
    EXPECT_EQ(words->find_ordinary(text), no_token) << text;
  }
  EXPECT_EQ(words->kind(6), token_kind::unused);
  EXPECT_EQ(words->byte_token(0x41), 5);
  EXPECT_EQ(words->byte_token(0x42), no_token);
}

TEST(vocabulary, bears_empty_and_repeated_texts) {
  const auto words = vocabulary::create({"", "a", "a", ""}, {}, {});
  ASSERT_TRUE(words);
  EXPECT_EQ(words->find("a"), 1);
  EXPECT_EQ(words->text(0), "");
  EXPECT_EQ(words->text(2), "a");
}

TEST(vocabulary, refuses_arrays_that_do_not_fit) {
  EXPECT_EQ(vocabulary::create({}, {}, {}).error().code, "model_invalid");
  EXPECT_EQ(vocabulary::create({"a", "b"}, {1}, {}).error().code, "model_invalid");
  EXPECT_EQ(vocabulary::create({"a", "b"}, {1, 1, 1}, {}).error().code, "model_invalid");
  EXPECT_EQ(vocabulary::create({"a", "b"}, {}, {1.0F}).error().code, "model_invalid");
  EXPECT_EQ(vocabulary::create({"a", "b"}, {}, {1.0F, std::nanf("")}).error().code, "model_invalid");
}

TEST(vocabulary, reads_a_file) {
  const auto file = test::test_model()
                        .add("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"})
                        .add("tokenizer.ggml.token_type", std::vector<std::int32_t>{1, 3})
                        .add("tokenizer.ggml.scores", std::vector<std::int32_t>{-1, -2})
                        .open();
  const auto words = vocabulary::load(*file);
  ASSERT_TRUE(words) << words.error().message;
  EXPECT_EQ(words->kind(1), token_kind::control);
  EXPECT_EQ(words->score(1), -2.0F);
  EXPECT_TRUE(words->states_kinds());
}

TEST(vocabulary, names_the_key_that_is_missing_or_wrong) {
  const auto missing = vocabulary::load(*test::test_model().add("general.name", "x").open());
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, "model_invalid");
  EXPECT_TRUE(missing.error().message.contains("tokenizer.ggml.tokens"));
  const auto wrong = vocabulary::load(*test::test_model()
                                           .add("tokenizer.ggml.tokens", std::vector<std::string>{"a"})
                                           .add("tokenizer.ggml.scores", "high")
                                           .open());
  ASSERT_FALSE(wrong);
  EXPECT_TRUE(wrong.error().message.contains("tokenizer.ggml.scores"));
}

TEST(byte_of_text, reads_two_hex_digits) {
  EXPECT_EQ(byte_of_text("<0x00>"), 0);
  EXPECT_EQ(byte_of_text("<0xfF>"), 255);
  for (const std::string_view text : {"", "<0x0>", "<0xG0>", "<0x000>", "a0x00>", "<0x00]", "<0x 1>"}) {
    EXPECT_EQ(byte_of_text(text), -1) << text;
  }
}

}  // namespace
}  // namespace kvern
