#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/gguf/gguf.hpp"
#include "model/tokenizer/byte_alphabet.hpp"
#include "model/tokenizer/tokenizer.hpp"
#include "tests/support/golden.hpp"

namespace kvern::test {

/// Writes a GGUF file that holds keys only, for tests of what reads them.
class test_model {
 public:
  test_model& add(std::string_view key, std::string_view value) {
    begin(key, string_type);
    put_text(value);
    return *this;
  }
  test_model& add(std::string_view key, const char* value) { return add(key, std::string_view(value)); }
  test_model& add(std::string_view key, bool value) {
    begin(key, bool_type);
    bytes_ += static_cast<char>(value);
    return *this;
  }
  test_model& add(std::string_view key, std::uint32_t value) {
    begin(key, u32_type);
    put(value);
    return *this;
  }
  test_model& add(std::string_view key, const std::vector<std::string>& values) {
    begin_array(key, string_type, values.size());
    for (const std::string& value : values) put_text(value);
    return *this;
  }
  test_model& add(std::string_view key, const std::vector<std::int32_t>& values) {
    begin_array(key, i32_type, values.size());
    for (const std::int32_t value : values) put(value);
    return *this;
  }
  test_model& add(std::string_view key, const std::vector<float>& values) {
    begin_array(key, f32_type, values.size());
    for (const float value : values) put(value);
    return *this;
  }

  std::shared_ptr<const gguf_file> open() const {
    const scratch_folder folder;
    const auto path = folder.path() / "model.gguf";
    std::string file = "GGUF";
    const auto append = [&](auto value) {
      char raw[sizeof value];
      std::memcpy(raw, &value, sizeof value);
      file.append(raw, sizeof value);
    };
    append(std::uint32_t{3});
    append(std::uint64_t{0});
    append(count_);
    file += bytes_;
    file.resize((file.size() + 31) / 32 * 32);
    std::ofstream(path, std::ios::binary) << file;
    auto opened = gguf_file::open(path);
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().message);
    return opened ? *opened : nullptr;
  }

  result<std::shared_ptr<const tokenizer>> make() const { return tokenizer::create(*open()); }

 private:
  static constexpr std::uint32_t u32_type = 4;
  static constexpr std::uint32_t i32_type = 5;
  static constexpr std::uint32_t f32_type = 6;
  static constexpr std::uint32_t bool_type = 7;
  static constexpr std::uint32_t string_type = 8;
  static constexpr std::uint32_t array_type = 9;

  template <class T>
  void put(T value) {
    char raw[sizeof value];
    std::memcpy(raw, &value, sizeof value);
    bytes_.append(raw, sizeof value);
  }
  void put_text(std::string_view text) {
    put(std::uint64_t{text.size()});
    bytes_ += text;
  }
  void begin(std::string_view key, std::uint32_t type) {
    put_text(key);
    put(type);
    ++count_;
  }
  void begin_array(std::string_view key, std::uint32_t element, std::size_t size) {
    begin(key, array_type);
    put(element);
    put(std::uint64_t{size});
  }

  std::string bytes_;
  std::uint64_t count_ = 0;
};

/// A byte-level BPE model: the 256 bytes as tokens 0 to 255, then the results of `merges`, then `specials`.
struct special_token {
  std::string text;
  token_kind kind = token_kind::control;
};
inline test_model byte_bpe_model(const std::vector<std::string>& merges, const std::vector<special_token>& specials,
                                 std::string_view pre = "gpt-2") {
  std::vector<std::string> texts;
  std::vector<std::int32_t> kinds;
  for (unsigned byte = 0; byte < 256; ++byte) texts.emplace_back(byte_character(static_cast<std::uint8_t>(byte)));
  for (const std::string& merge : merges) {
    const std::size_t space = merge.find(' ', 1);
    texts.push_back(merge.substr(0, space) + merge.substr(space + 1));
  }
  kinds.assign(texts.size(), 1);
  for (const special_token& special : specials) {
    texts.push_back(special.text);
    kinds.push_back(static_cast<std::int32_t>(special.kind));
  }
  test_model model;
  model.add("tokenizer.ggml.model", "gpt2")
      .add("tokenizer.ggml.pre", pre)
      .add("tokenizer.ggml.tokens", texts)
      .add("tokenizer.ggml.token_type", kinds)
      .add("tokenizer.ggml.merges", merges);
  return model;
}

/// One token of a SentencePiece model.
struct scored_token {
  std::string text;
  float score = 0;
  token_kind kind = token_kind::normal;
};

/// A SentencePiece model: <unk>, <s>, </s>, the bytes as tokens 3 to 258, then `tokens`.
inline test_model spm_model(const std::vector<scored_token>& tokens) {
  std::vector<std::string> texts{"<unk>", "<s>", "</s>"};
  std::vector<std::int32_t> kinds{2, 3, 3};
  std::vector<float> scores{0, 0, 0};
  for (unsigned byte = 0; byte < 256; ++byte) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    texts.push_back(std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">");
    kinds.push_back(6);
    scores.push_back(0);
  }
  for (const scored_token& token : tokens) {
    texts.push_back(token.text);
    kinds.push_back(static_cast<std::int32_t>(token.kind));
    scores.push_back(token.score);
  }
  test_model model;
  model.add("tokenizer.ggml.model", "llama")
      .add("tokenizer.ggml.tokens", texts)
      .add("tokenizer.ggml.token_type", kinds)
      .add("tokenizer.ggml.scores", scores);
  return model;
}

}  // namespace kvern::test
