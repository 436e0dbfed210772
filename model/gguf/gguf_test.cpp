#include "model/gguf/gguf.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "model/gguf/gguf_test_writer.hpp"
#include "tests/support/golden.hpp"

namespace kvern {
namespace {

using test::gguf_test_writer;
using testing::HasSubstr;
using testing::Not;

class gguf_test : public testing::Test {
 protected:
  std::filesystem::path path(std::string_view name = "m.gguf") const { return folder_.path() / name; }

  result<std::shared_ptr<const gguf_file>> open(const gguf_test_writer& writer) const {
    writer.write(path());
    return gguf_file::open(path());
  }

  void expect_failure(const std::filesystem::path& file, std::string_view code, std::string_view words) const {
    const auto opened = gguf_file::open(file);
    ASSERT_FALSE(opened) << words;
    EXPECT_EQ(opened.error().code, code) << opened.error().message;
    EXPECT_THAT(opened.error().message, HasSubstr(std::string(words)));
    EXPECT_THAT(opened.error().message, Not(HasSubstr(folder_.path().string()))) << "no path in a message";
  }

  test::scratch_folder folder_;
};

TEST_F(gguf_test, reads_tensors_of_a_good_file) {
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  const auto opened = open(gguf_test_writer()
                               .key("general.architecture", "llama")
                               .tensor("a", {3, 2}, values)
                               .tensor("b", ggml_type::q8_0, {32}, std::string(34, 'x')));
  ASSERT_TRUE(opened) << opened.error().message;
  const auto& file = **opened;
  ASSERT_EQ(file.tensors().size(), 2u);
  const gguf_tensor* a = file.find_tensor("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->type, ggml_type::f32);
  EXPECT_EQ(a->n_dims, 2);
  EXPECT_EQ(a->row_length(), 3u);
  EXPECT_EQ(a->rows(), 2u);
  EXPECT_EQ(a->elements(), 6u);
  ASSERT_EQ(a->data.size(), 24u);
  EXPECT_EQ(std::memcmp(a->data.data(), values.data(), 24), 0);
  const gguf_tensor* b = file.find_tensor("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->data.size(), 34u);
  EXPECT_EQ(b->data[33], std::byte{'x'});
  EXPECT_EQ(file.find_tensor("c"), nullptr);
  EXPECT_EQ(file.file_name(), "m.gguf");
  EXPECT_EQ(file.file_bytes(), std::filesystem::file_size(path()));
  EXPECT_EQ(file.get_string("general.architecture"), "llama");
  EXPECT_TRUE(file.has("general.architecture"));
  EXPECT_FALSE(file.is_array("general.architecture"));
}

TEST_F(gguf_test, forgotten_data_reads_the_same) {
  std::string data(1 << 20, '\0');
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 31 >> 3);
  const auto opened = open(
      gguf_test_writer().tensor("t", ggml_type::f32, {1 << 18}, data).tensor("small", ggml_type::f32, {1}, "abcd"));
  ASSERT_TRUE(opened);
  for (const auto& tensor : (*opened)->tensors()) (*opened)->forget(tensor);
  EXPECT_EQ(std::memcmp((*opened)->find_tensor("t")->data.data(), data.data(), data.size()), 0);
  EXPECT_EQ(std::memcmp((*opened)->find_tensor("small")->data.data(), "abcd", 4), 0);
}

TEST_F(gguf_test, missing_file_and_folder) {
  expect_failure(path("no.gguf"), "model_missing", "'no.gguf'");
  expect_failure(path("no/such.gguf"), "model_missing", "'such.gguf'");
  expect_failure(folder_.path(), "model_unreadable", "folder");
}

TEST_F(gguf_test, a_large_vocabulary_loads_in_normal_time) {
  constexpr std::size_t size = 150000;
  std::vector<std::string> tokens(size);
  for (std::size_t i = 0; i < size; ++i) tokens[i] = "token" + std::to_string(i);
  const std::vector<float> scores(size, -1.5F);
  const std::vector<std::int32_t> types(size, 1);
  gguf_test_writer()
      .strings("tokenizer.ggml.tokens", tokens)
      .array("tokenizer.ggml.scores", scores)
      .array("tokenizer.ggml.token_type", types)
      .write(path());

  const auto start = std::chrono::steady_clock::now();
  const auto opened = gguf_file::open(path());
  ASSERT_TRUE(opened) << opened.error().message;
  const auto read = (*opened)->find_strings("tokenizer.ggml.tokens");
  const auto read_scores = (*opened)->find_floats("tokenizer.ggml.scores");
  const auto read_types = (*opened)->find_ints("tokenizer.ggml.token_type");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(read && *read && read_scores && *read_scores && read_types && *read_types);
  EXPECT_TRUE(std::ranges::equal(**read, tokens));
  EXPECT_EQ(**read_scores, scores);
  EXPECT_EQ((*read_types)->size(), size);
  // Milliseconds in an optimised build; a minute-long load is what this guards against.
  EXPECT_LT(took.count(), 5.0);
}

TEST_F(gguf_test, reads_the_architectures_of_the_golden_data) {
  const auto folder = test::golden("arch");
  if (!folder) GTEST_SKIP() << "no golden data";
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(*folder)) {
    if (entry.path().extension() != ".gguf") continue;
    const auto opened = gguf_file::open(entry.path());
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_TRUE((*opened)->get_string("general.architecture")) << entry.path();
    EXPECT_FALSE((*opened)->tensors().empty()) << entry.path();
    EXPECT_EQ((*opened)->file_bytes(), entry.file_size());
    ++files;
  }
  EXPECT_GT(files, 0);
}

TEST_F(gguf_test, reads_smollm2) {
  const auto model = test::fetched_model("smollm2");
  if (!model) GTEST_SKIP() << "models/smollm2.gguf is not fetched";
  const auto opened = gguf_file::open(*model);
  ASSERT_TRUE(opened) << opened.error().message;
  const auto& file = **opened;
  EXPECT_EQ(file.get_string("general.architecture"), "llama");
  EXPECT_EQ(file.get_uint("llama.block_count"), 30u);
  EXPECT_EQ(file.get_uint("llama.embedding_length"), 576u);
  const auto tokens = file.find_strings("tokenizer.ggml.tokens");
  ASSERT_TRUE(tokens && *tokens);
  EXPECT_EQ((*tokens)->size(), 49152u);
  const gguf_tensor* embedding = file.find_tensor("token_embd.weight");
  ASSERT_NE(embedding, nullptr);
  EXPECT_EQ(embedding->row_length(), 576u);
  EXPECT_EQ(embedding->rows(), 49152u);
  std::uint64_t bytes = 0;
  for (const auto& tensor : file.tensors()) bytes += tensor.data.size();
  EXPECT_GT(bytes, file.file_bytes() * 9 / 10);
}

}  // namespace
}  // namespace kvern
