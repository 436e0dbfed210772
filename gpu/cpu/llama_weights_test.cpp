#include "gpu/cpu/llama_weights.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "gpu/cpu/tiny_model.hpp"

namespace kvern::gpu::cpu {
namespace {

class llama_weights_test : public testing::Test {
 protected:
  result<llama_weights> load(const test::tiny_model& model) {
    auto file = model.open(folder_);
    if (!file) return std::unexpected(file.error());
    auto config = read_llama_config(**file);
    if (!config) return std::unexpected(config.error());
    return llama_weights::load(*file, *config, best_isa(), team_, [this](double share) { progress_.push_back(share); });
  }

  void refused(const test::tiny_model& model, const std::string& code, const std::string& name) {
    const auto weights = load(model);
    ASSERT_FALSE(weights) << name;
    EXPECT_EQ(weights.error().code, code) << weights.error().message;
    EXPECT_NE(weights.error().message.find(name), std::string::npos) << weights.error().message;
  }

  test::scratch_folder folder_;
  thread_team team_{2};
  std::vector<double> progress_;
};

TEST_F(llama_weights_test, embeddings_are_the_files_rows) {
  for (const bool tied : {false, true}) {
    const auto model = test::make_tiny_llama({.tied = tied});
    const auto weights = load(model);
    ASSERT_TRUE(weights) << weights.error().message;
    EXPECT_EQ(weights->vocab(), 50);
    const auto& values = model.tensors.at("token_embd.weight").values;
    for (const token_id token : {0, 17, 49}) {
      std::vector<float> row(32);
      weights->embed(token, row.data());
      EXPECT_TRUE(std::equal(row.begin(), row.end(), values.begin() + token * 32));
    }
  }
}

TEST_F(llama_weights_test, progress_ascends_to_one) {
  const auto weights = load(test::make_tiny_llama());
  ASSERT_TRUE(weights);
  EXPECT_TRUE(std::is_sorted(progress_.begin(), progress_.end()));
  EXPECT_GE(progress_.size(), 10u);
  EXPECT_GT(progress_.front(), 0);
  EXPECT_EQ(progress_.back(), 1);
}

TEST_F(llama_weights_test, every_weight_counts_as_resident) {
  const auto model = test::make_tiny_llama();
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : model.tensors)
    if (name != "token_embd.weight") bytes += tensor.values.size() * sizeof(float);
  const auto weights = load(model);
  ASSERT_TRUE(weights);
  EXPECT_GE(weights->bytes(), bytes);
}

TEST_F(llama_weights_test, missing_tensors_are_named) {
  const auto model = test::make_tiny_llama();
  for (const auto& [name, tensor] : model.tensors) {
    if (name == "output.weight") continue;  // its absence means that the embedding serves
    auto without = model;
    without.tensors.erase(name);
    refused(without, "model_invalid", name);
  }
  auto none = model;
  none.tensors.clear();
  none.tensors["token_embd.weight"] = model.tensors.at("token_embd.weight");
  refused(none, "model_invalid", "blk.0.attn_norm.weight");
}

TEST_F(llama_weights_test, wrong_shapes_are_named) {
  const auto model = test::make_tiny_llama({.biases = true});
  for (const auto& [name, tensor] : model.tensors) {
    if (name == "token_embd.weight") continue;
    auto changed = model;
    auto& dims = changed.tensors[name].dims;
    dims.back() += 1;
    changed.tensors[name].values.resize(dims[0] * (dims.size() > 1 ? dims[1] : 1));
    refused(changed, "model_invalid", name);
  }
  auto narrow = model;
  narrow.tensors["token_embd.weight"] = {{31, 50}, std::vector<float>(31 * 50)};
  refused(narrow, "model_invalid", "token_embd.weight");
  auto deep = model;
  deep.tensors["blk.0.attn_q.weight"].dims = {32, 16, 2};
  refused(deep, "model_invalid", "blk.0.attn_q.weight");
}

TEST_F(llama_weights_test, a_tensor_that_would_be_ignored_is_refused) {
  auto model = test::make_tiny_llama();
  model.tensors["blk.1.attn_q_norm.weight"] = {{8}, std::vector<float>(8)};
  refused(model, "model_unsupported", "blk.1.attn_q_norm.weight");
  model = test::make_tiny_llama();
  model.tensors["blk.2.attn_norm.weight"] = {{32}, std::vector<float>(32)};
  refused(model, "model_unsupported", "blk.2.attn_norm.weight");
  model = test::make_tiny_llama();
  model.tensors["rope_freqs.weight"] = {{4}, {1, 1, 1, 1}};
  EXPECT_TRUE(load(model));
}

TEST_F(llama_weights_test, a_vocabulary_that_disagrees_is_refused) {
  auto model = test::make_tiny_llama();
  model.keys["llama.vocab_size"] = std::uint32_t{51};
  refused(model, "model_invalid", "token_embd.weight");
  model.keys["llama.vocab_size"] = std::uint32_t{50};
  EXPECT_TRUE(load(model));
}

}  // namespace
}  // namespace kvern::gpu::cpu
