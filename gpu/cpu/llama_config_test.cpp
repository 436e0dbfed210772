#include "gpu/cpu/llama_config.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "gpu/cpu/tiny_model.hpp"

namespace kvern::gpu::cpu {
namespace {

using test::gguf_value;

class config_of {
 public:
  template <class F>
  result<llama_config> operator()(F&& change) {
    test::tiny_model model = test::make_tiny_llama();
    change(model);
    auto file = model.open(folder_);
    if (!file) return std::unexpected(file.error());
    return read_llama_config(**file);
  }

 private:
  test::scratch_folder folder_;
};

TEST(llama_config, reads_what_the_file_says) {
  config_of read;
  const auto config = read([](auto&) {});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->layers, 2);
  EXPECT_EQ(config->dim, 32);
  EXPECT_EQ(config->heads, 4);
  EXPECT_EQ(config->kv_heads, 2);
  EXPECT_EQ(config->head_dim, 8);
  EXPECT_EQ(config->ff, (std::vector<std::int32_t>{48, 48}));
  EXPECT_EQ(config->norm_epsilon, 1e-5F);
  EXPECT_FLOAT_EQ(config->attention_scale, 0.35355339F);
  EXPECT_EQ(config->context, 128);
  EXPECT_EQ(config->rope.dims, 8);
  EXPECT_EQ(config->rope.scaling, rope_scaling::none);
}

TEST(llama_config, absent_keys_have_their_defaults) {
  config_of read;
  const auto config = read([](auto& m) {
    m.keys["llama.attention.key_length"] = std::uint32_t{8};
    for (const char* key : {"attention.head_count_kv", "attention.key_length", "attention.value_length",
                            "rope.freq_base", "rope.dimension_count"})
      m.keys.erase(std::string("llama.") + key);
  });
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->kv_heads, 4);
  EXPECT_EQ(config->head_dim, 8);
  EXPECT_EQ(config->rope.base, 10000);
}

TEST(llama_config, missing_keys_are_named) {
  config_of read;
  for (const char* key :
       {"llama.block_count", "llama.embedding_length", "llama.context_length", "llama.attention.head_count",
        "llama.feed_forward_length", "llama.attention.layer_norm_rms_epsilon", "general.architecture"}) {
    const auto config = read([&](auto& m) { m.keys.erase(key); });
    ASSERT_FALSE(config) << key;
    EXPECT_EQ(config.error().code, "model_invalid");
    EXPECT_NE(config.error().message.find(key), std::string::npos) << config.error().message;
  }
}

TEST(llama_config, values_out_of_range_are_refused) {
  config_of read;
  constexpr auto huge = std::numeric_limits<std::uint32_t>::max();
  const auto refused = [&](const char* key, gguf_value value, const char* code = "model_invalid") {
    const auto config = read([&](auto& m) { m.keys[key] = value; });
    ASSERT_FALSE(config) << key;
    EXPECT_EQ(config.error().code, code) << config.error().message;
    EXPECT_NE(config.error().message.find(key), std::string::npos) << config.error().message;
  };
  for (const char* key : {"llama.block_count", "llama.embedding_length", "llama.context_length",
                          "llama.attention.head_count", "llama.attention.head_count_kv", "llama.attention.key_length",
                          "llama.attention.value_length", "llama.rope.dimension_count"}) {
    refused(key, std::uint32_t{0});
    refused(key, huge);
    refused(key, std::string("4"));
  }
  refused("llama.attention.head_count_kv", std::uint32_t{3});
  refused("llama.attention.key_length", std::uint32_t{7});
  refused("llama.rope.dimension_count", std::uint32_t{4});
  refused("llama.attention.value_length", std::uint32_t{16}, "model_unsupported");
  refused("llama.feed_forward_length", std::vector<std::int32_t>{48});
  refused("llama.feed_forward_length", std::vector<std::int32_t>{48, 0});
  refused("llama.feed_forward_length", std::vector<std::int32_t>{48, -48});
  refused("llama.attention.head_count", std::vector<std::int32_t>{4, 2}, "model_unsupported");
  for (const float bad : {0.0F, -1e-5F, 1.0F, std::numeric_limits<float>::quiet_NaN()})
    refused("llama.attention.layer_norm_rms_epsilon", bad);
  for (const float bad : {0.0F, 1.0F, -5.0F, std::numeric_limits<float>::infinity()})
    refused("llama.rope.freq_base", bad);
  refused("llama.rope.scaling.factor", -1.0F);
  refused("llama.rope.scaling.factor", 1e-9F);
  refused("llama.rope.scaling.type", std::string("longrope"), "model_unsupported");
  refused("llama.expert_count", std::uint32_t{4}, "model_unsupported");
}

TEST(llama_config, heads_that_do_not_divide_the_width_are_refused) {
  config_of read;
  const auto config = read([](auto& m) {
    m.keys.erase("llama.attention.key_length");
    m.keys["llama.attention.head_count"] = std::uint32_t{5};
    m.keys["llama.attention.head_count_kv"] = std::uint32_t{5};
  });
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, "model_invalid");
}

TEST(llama_config, another_architecture_is_unsupported_and_named) {
  config_of read;
  const auto config = read([](auto& m) { m.keys["general.architecture"] = std::string("mamba"); });
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, "model_unsupported");
  EXPECT_NE(config.error().message.find("mamba"), std::string::npos);
}

TEST(llama_config, counts_may_be_arrays) {
  config_of read;
  const auto config = read([](auto& m) {
    m.keys["llama.feed_forward_length"] = std::vector<std::int32_t>{48, 96};
    m.keys["llama.attention.head_count_kv"] = std::vector<std::int32_t>{2, 2};
  });
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->ff, (std::vector<std::int32_t>{48, 96}));
  EXPECT_EQ(config->kv_heads, 2);
}

TEST(llama_config, rope_scaling_says_the_context) {
  config_of read;
  const auto yarn = read([](auto& m) {
    m.keys["llama.rope.scaling.type"] = std::string("yarn");
    m.keys["llama.rope.scaling.factor"] = 4.0F;
    m.keys["llama.rope.scaling.original_context_length"] = std::uint32_t{64};
  });
  ASSERT_TRUE(yarn) << yarn.error().message;
  EXPECT_EQ(yarn->rope.scaling, rope_scaling::yarn);
  EXPECT_EQ(yarn->rope.factor, 4);
  EXPECT_EQ(yarn->rope.original_context, 64);
  EXPECT_EQ(yarn->context, 256);

  // The type's absence means linear, a factor of 0 means none.
  const auto linear = read([](auto& m) { m.keys["llama.rope.scaling.factor"] = 2.0F; });
  ASSERT_TRUE(linear);
  EXPECT_EQ(linear->rope.scaling, rope_scaling::linear);
  EXPECT_EQ(linear->context, 128);
  const auto none = read([](auto& m) { m.keys["llama.rope.scaling.factor"] = 0.0F; });
  ASSERT_TRUE(none);
  EXPECT_EQ(none->rope.scaling, rope_scaling::none);
}

TEST(llama_config, frequency_factors_are_checked) {
  config_of read;
  const auto with = [&](std::vector<float> values) {
    return read([&](auto& m) { m.tensors["rope_freqs.weight"] = {{values.size()}, values}; });
  };
  const auto good = with({1, 2, 3, 4});
  ASSERT_TRUE(good) << good.error().message;
  EXPECT_EQ(good->rope.freq_factors, (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(with({1, 2, 3}).error().code, "model_invalid");
  EXPECT_EQ(with({1, 0, 3, 4}).error().code, "model_invalid");
  EXPECT_EQ(with({1, std::numeric_limits<float>::quiet_NaN(), 3, 4}).error().code, "model_invalid");
}

}  // namespace
}  // namespace kvern::gpu::cpu
