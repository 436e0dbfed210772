#include "model/tokenizer/split_style.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/tokenizer/pretokenizer.hpp"

namespace kvern {
namespace {

using words = std::vector<std::string>;

words cut(std::string_view style, std::string_view text) {
  const split_style* found = find_split_style(style);
  EXPECT_NE(found, nullptr) << style;
  const auto made = pretokenizer::create(found->steps);
  EXPECT_TRUE(made) << style;
  words out;
  pretokenizer::session(*made).split(text, [&](std::string_view word) { out.emplace_back(word); });
  return out;
}

TEST(split_style, knows_the_names_and_no_others) {
  for (const char* name : {"",         "default",    "smollm",       "gpt-2",          "llama-bpe",   "llama3",
                           "llama-v3", "qwen2",      "deepseek-llm", "deepseek-coder", "starcoder",   "refact",
                           "falcon",   "command-r",  "mpt",          "qwen35",         "deepseek-v3", "tekken",
                           "gpt-4o",   "llama4",     "glm4",         "seed-coder",     "minicpm5",    "bloom",
                           "viking",   "bailingmoe", "stablelm2",    "olmo",           "dbrx"}) {
    const split_style* style = find_split_style(name);
    ASSERT_NE(style, nullptr) << name;
    EXPECT_TRUE(pretokenizer::create(style->steps)) << name;
  }
  for (const char* name : {"llama", "qwen", "SMOLLM", "whitespace", "kimi-k2"}) {
    EXPECT_EQ(find_split_style(name), nullptr) << name;
  }
}

TEST(split_style, holds_the_defaults_of_the_vocabularies) {
  EXPECT_TRUE(find_split_style("llama-bpe")->ignore_merges);
  EXPECT_TRUE(find_split_style("llama-bpe")->add_bos);
  EXPECT_FALSE(find_split_style("dbrx")->ignore_merges);
  EXPECT_FALSE(find_split_style("qwen2")->add_bos);
  EXPECT_TRUE(find_split_style("tekken")->ignore_merges);
  EXPECT_FALSE(find_split_style("glm4")->default_bos);
}

TEST(split_style, cuts_as_the_definitions_say) {
  EXPECT_EQ(cut("gpt-2", "I'm  here, 1234\n\n x"), (words{"I", "'m", " ", " here", ",", " 1234", "\n\n", " x"}));
  EXPECT_EQ(cut("smollm", "a 12"), (words{"a", " ", "1", "2"}));
  EXPECT_EQ(cut("llama-bpe", "(x):\n 12345 DON'T\t\n  y"),
            (words{"(x", "):\n", " ", "123", "45", " DON", "'T", "\t\n", " ", " y"}));
  EXPECT_EQ(cut("qwen2", "a->b 12"), (words{"a", "->", "b", " ", "1", "2"}));
  EXPECT_EQ(cut("falcon", "x=12345"), (words{"x", "=", "123", "45"}));
  EXPECT_EQ(cut("deepseek-llm", "ab  \n 12 "), (words{"ab", "  ", "\n", " ", "12", " "}));
  EXPECT_EQ(cut("deepseek-v3", "x_y 1234!"), (words{"x", "_y", " ", "123", "4", "!"}));
  // From the definitions of these two, for which there are no reference ids here.
  EXPECT_EQ(cut("gpt-4o", "HelloWorld don't =1234/\n"), (words{"Hello", "World", " don't", " =", "123", "4", "/\n"}));
  EXPECT_EQ(cut("tekken", "HTTPServer can't"), (words{"HTTPServer", " can", "'t"}));
}

TEST(split_style, sees_line_ends_in_white_space_alike_to_the_plain_expression) {
  // \s*[\r\n]+ takes white space up to its last line end.
  EXPECT_EQ(cut("qwen2", "a \n\t \r\n  b"), (words{"a", " \n\t \r\n", " ", " b"}));
  EXPECT_EQ(cut("qwen2", "\u00A0\u2028\n\u3000b"), (words{"\u00A0\u2028\n", "\u3000b"}));
  EXPECT_EQ(cut("qwen2", "\t\v\f\u0085\u2009\n"), (words{"\t\v\f\u0085\u2009\n"}));
  // No white space to Unicode, though it is to PCRE2.
  EXPECT_EQ(cut("deepseek-v3", "a\u180E\nb"), (words{"a", "\u180E", "\n", "b"}));
}

}  // namespace
}  // namespace kvern
