// Ids and texts of llama.cpp, for every vocabulary that is there.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>

#include "model/gguf/gguf.hpp"
#include "model/tokenizer/escaped_space.hpp"
#include "model/tokenizer/tokenizer.hpp"
#include "tests/support/golden.hpp"

namespace kvern {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using ids = std::vector<token_id>;

ids ids_of(const json::object& row, std::string_view key) { return json::value_to<ids>(row.at(key)); }

std::string text_of(const json::object& row, std::string_view key) { return json::value_to<std::string>(row.at(key)); }

result<std::shared_ptr<const tokenizer>> open(const fs::path& path) {
  const auto file = gguf_file::open(path);
  if (!file) return std::unexpected(file.error());
  return tokenizer::create(**file);
}

std::string without_spaces(std::string text) {
  std::erase(text, ' ');
  return text;
}

class golden_model : public testing::TestWithParam<std::string> {};

TEST_P(golden_model, has_the_ids_and_texts_of_the_reference) {
  const auto model = test::fetched_model(GetParam());
  const auto reference = test::golden("tokenizer/" + GetParam() + ".jsonl");
  if (!model || !reference) GTEST_SKIP() << GetParam() << " is not here";
  const auto t = open(*model);
  ASSERT_TRUE(t) << t.error().message;
  int rows = 0;
  for (const std::string& line : test::read_lines(*reference)) {
    if (line.empty()) continue;
    const json::object row = json::parse(line).as_object();
    const std::string text = text_of(row, "text");
    SCOPED_TRACE(fmt::format("row {}: {}", rows, line.substr(0, 200)));
    EXPECT_EQ((*t)->encode(text, false, false), ids_of(row, "ids_plain"));
    EXPECT_EQ((*t)->encode(text, false, true), ids_of(row, "ids_special"));
    EXPECT_EQ((*t)->encode(text, true, true), ids_of(row, "ids_bos"));
    EXPECT_EQ((*t)->decode(ids_of(row, "ids_plain"), false), row.contains("detok") ? text_of(row, "detok") : text);
    ++rows;
  }
  EXPECT_EQ(rows, 282);
}

INSTANTIATE_TEST_SUITE_P(models, golden_model, testing::Values("smollm2", "gemma3"),
                         [](const auto& tested) { return tested.param; });

/// The file of a vocabulary: a tiny model of the reference data, or one of the vocabularies fetched apart.
std::optional<fs::path> vocabulary_file(const std::string& source) {
  const std::string name = fs::path(source).filename().string();
  if (source.starts_with("../arch/")) return test::golden("arch/" + name);
  std::vector<fs::path> folders{fs::path(KVERN_SOURCE_DIR) / "models/vocab"};
  if (const char* named = std::getenv("KVERN_VOCABS")) folders.emplace_back(named);
  for (const auto& folder : folders) {
    std::error_code ignored;
    if (fs::exists(folder / name, ignored)) return folder / name;
  }
  return std::nullopt;
}

class golden_vocabulary : public testing::TestWithParam<std::string> {
 protected:
  void check_row(const tokenizer& t, const json::object& row, bool bpe) {
    const std::string text = text_of(row, "text");
    EXPECT_EQ(t.encode(text, false, false), ids_of(row, "ids_plain"));
    EXPECT_EQ(t.encode(text, false, true), ids_of(row, "ids_parse"));
    EXPECT_EQ(t.encode(text, true, true), ids_of(row, "ids_special"));
    const std::string plain = t.decode(ids_of(row, "ids_plain"), false);
    const std::string special = t.decode(ids_of(row, "ids_special"), true);
    const auto expected = [&](std::string_view key) {
      const json::value& detok = row.at(key);
      return detok.is_bool() ? text : json::value_to<std::string>(detok);
    };
    if (bpe) {
      // The reference takes some spaces out of what it decodes, which is no part of decoding here.
      EXPECT_EQ(plain, plain_of(t, text));
      if (row.contains("detok_special")) {
        EXPECT_EQ(without_spaces(special), without_spaces(expected("detok_special")));
      }
    } else {
      if (row.contains("detok_plain")) {
        EXPECT_EQ(plain, expected("detok_plain"));
      }
      if (row.contains("detok_special")) {
        EXPECT_EQ(special, expected("detok_special"));
      }
    }
  }

  /// What a BPE text comes back as: itself, except that a vocabulary that writes spaces as U+2581 cannot tell the two
  /// apart.
  static std::string plain_of(const tokenizer& t, std::string text) {
    if (t.piece(t.encode(" ", false, false).at(0), false) == " " &&
        t.text(t.encode(" ", false, false).at(0)) != escaped_space) {
      return text;
    }
    std::string out;
    append_unescaped(text, out);
    return out;
  }
};

TEST_P(golden_vocabulary, has_the_ids_and_texts_of_the_reference) {
  const auto index_file = test::golden("vocab/index.json");
  const auto reference = test::golden("vocab/" + GetParam() + ".jsonl");
  if (!index_file || !reference) GTEST_SKIP() << "no reference data";
  const json::value index = json::parse(test::read_file(*index_file));
  for (const json::value& item : index.as_array()) {
    const json::object& entry = item.as_object();
    if (text_of(entry, "name") != GetParam()) continue;
    const auto path = vocabulary_file(text_of(entry, "source"));
    if (!path) GTEST_SKIP() << GetParam() << " is not here";
    ASSERT_EQ(fs::file_size(*path), entry.at("source_bytes").to_number<std::uintmax_t>());
    const auto t = open(*path);
    const std::string kind = text_of(entry, "kind");
    if (kind != "bpe" && kind != "spm") {
      ASSERT_FALSE(t);
      EXPECT_EQ(t.error().code, "model_unsupported");
      EXPECT_TRUE(t.error().message.contains(text_of(entry, "tokenizer_model"))) << t.error().message;
      return;
    }
    ASSERT_TRUE(t) << t.error().message;
    EXPECT_EQ((*t)->vocab_size(), entry.at("n_vocab").to_number<int>());
    EXPECT_EQ((*t)->adds_bos(), entry.at("add_bos").to_number<int>() == 1);
    EXPECT_EQ((*t)->bos().value_or(-1), entry.at("bos").to_number<int>());
    EXPECT_EQ((*t)->eos().value_or(-1), entry.at("eos").to_number<int>());
    int rows = 0;
    for (const std::string& line : test::read_lines(*reference)) {
      if (line.empty()) continue;
      SCOPED_TRACE(fmt::format("row {}: {}", rows, line.substr(0, 200)));
      check_row(**t, json::parse(line).as_object(), kind == "bpe");
      ++rows;
    }
    EXPECT_EQ(rows, 75);
    return;
  }
  FAIL() << GetParam() << " is not in the index";
}

// Ids that other engines have been seen to get wrong.
TEST(golden_cases, qwen2_cuts_and_merges_as_it_should) {
  const auto path = vocabulary_file("models/ggml-vocab-qwen2.gguf");
  if (!path) GTEST_SKIP() << "the vocabulary is not here";
  const auto t = open(*path);
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ((*t)->encode("->", false, false), (ids{405}));
  EXPECT_EQ((*t)->encode("(x):\n", false, false), (ids{2075, 982}));
  EXPECT_EQ((*t)->encode("<|im_end|>", false, false), (ids{27, 91, 318, 6213, 91, 29}));
  ASSERT_EQ((*t)->encode("<|im_end|>", false, true).size(), 1U);
  EXPECT_TRUE((*t)->is_end((*t)->encode("<|im_end|>", false, true)[0]));
}

INSTANTIATE_TEST_SUITE_P(vocabularies, golden_vocabulary,
                         testing::Values("tiny-bpe-llama", "tiny-bpe-qwen2", "tiny-bpe-gpt2", "tiny-bpe-smollm",
                                         "tiny-bpe-refact", "tiny-spm-gemma", "tiny-spm-llama", "gpt-2", "llama-bpe",
                                         "llama-spm", "qwen2", "phi-3", "deepseek-llm", "deepseek-coder", "starcoder",
                                         "falcon", "command-r", "refact", "mpt", "gemma-4", "qwen35", "gpt-neox",
                                         "aquila", "baichuan", "bert-bge", "nomic-bert-moe"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace kvern
