#include "gpu/cpu/decoder_weights.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "gpu/cpu/tiny_model.hpp"

namespace kvern::gpu::cpu {
namespace {

class decoder_weights_test : public testing::Test {
 protected:
  result<decoder_weights> load(const test::tiny_model& model) {
    auto file = model.open(folder_);
    if (!file) return std::unexpected(file.error());
    auto config = read_decoder_config(**file);
    if (!config) return std::unexpected(config.error());
    return decoder_weights::load(*file, *config, best_isa(), team_,
                                 [this](double share) { progress_.push_back(share); });
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

TEST_F(decoder_weights_test, embeddings_are_the_files_rows) {
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

TEST_F(decoder_weights_test, gemmas_embedding_is_scaled_and_its_head_is_not) {
  const auto model = test::make_tiny_model({.architecture = "gemma2", .window = 16});
  const auto weights = load(model);
  ASSERT_TRUE(weights) << weights.error().message;
  const auto& values = model.tensors.at("token_embd.weight").values;
  std::vector<float> row(32), head(32);
  weights->embed(17, row.data());
  weights->head.row(17, head.data());
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(row[i], values[17 * 32 + i] * std::sqrt(32.0F));
    EXPECT_EQ(head[i], values[17 * 32 + i]);
  }
}

TEST_F(decoder_weights_test, gemmas_norms_are_there_or_named) {
  const auto model = test::make_tiny_model({.architecture = "gemma3", .window = 16});
  const auto weights = load(model);
  ASSERT_TRUE(weights) << weights.error().message;
  for (const decoder_layer& layer : weights->layers) {
    EXPECT_EQ(layer.q_norm.size(), 8u);
    EXPECT_EQ(layer.k_norm.size(), 8u);
    EXPECT_EQ(layer.post_attention_norm.size(), 32u);
    EXPECT_EQ(layer.post_ffn_norm.size(), 32u);
  }
  for (const char* name : {"attn_q_norm", "attn_k_norm", "post_attention_norm", "post_ffw_norm"}) {
    auto without = model;
    without.tensors.erase("blk.1." + std::string(name) + ".weight");
    refused(without, "model_invalid", name);
  }
  auto factors = model;
  factors.tensors["rope_freqs.weight"] = {{4}, {1, 1, 1, 1}};
  refused(factors, "model_unsupported", "rope_freqs.weight");
}

TEST_F(decoder_weights_test, progress_ascends_to_one) {
  const auto weights = load(test::make_tiny_llama());
  ASSERT_TRUE(weights);
  EXPECT_TRUE(std::is_sorted(progress_.begin(), progress_.end()));
  EXPECT_GE(progress_.size(), 10u);
  EXPECT_GT(progress_.front(), 0);
  EXPECT_EQ(progress_.back(), 1);
}

TEST_F(decoder_weights_test, every_weight_counts_as_resident) {
  const auto model = test::make_tiny_llama();
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : model.tensors)
    if (name != "token_embd.weight") bytes += tensor.values.size() * sizeof(float);
  const auto weights = load(model);
  ASSERT_TRUE(weights);
  EXPECT_GE(weights->bytes(), bytes);
}

TEST_F(decoder_weights_test, missing_tensors_are_named) {
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

TEST_F(decoder_weights_test, wrong_shapes_are_named) {
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

TEST_F(decoder_weights_test, a_tensor_that_would_be_ignored_is_refused) {
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

TEST_F(decoder_weights_test, a_vocabulary_that_disagrees_is_refused) {
  auto model = test::make_tiny_llama();
  model.keys["llama.vocab_size"] = std::uint32_t{51};
  refused(model, "model_invalid", "token_embd.weight");
  model.keys["llama.vocab_size"] = std::uint32_t{50};
  EXPECT_TRUE(load(model));
}

}  // namespace
}  // namespace kvern::gpu::cpu
