#include "gpu/cpu/decoder_config.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "gpu/cpu/tiny_model.hpp"

namespace kvern::gpu::cpu {
namespace {

using test::gguf_value;

class config_of {
 public:
  template <class F>
  result<decoder_config> operator()(F&& change) {
    return of(test::make_tiny_llama(), change);
  }

  /// A gemma model of `layers` layers with windows of 16.
  template <class F>
  result<decoder_config> gemma(const std::string& architecture, std::uint32_t layers, F&& change) {
    test::tiny_options o{.layers = layers, .architecture = architecture, .window = 16};
    o.ff.assign(layers, 48);
    return of(test::make_tiny_model(o), change);
  }

 private:
  template <class F>
  result<decoder_config> of(test::tiny_model model, F&& change) {
    change(model);
    auto file = model.open(folder_);
    if (!file) return std::unexpected(file.error());
    return read_decoder_config(**file);
  }

  test::scratch_folder folder_;
};

TEST(decoder_config, reads_what_the_file_says) {
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

TEST(decoder_config, absent_keys_have_their_defaults) {
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

TEST(decoder_config, missing_keys_are_named) {
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

TEST(decoder_config, values_out_of_range_are_refused) {
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

TEST(decoder_config, heads_that_do_not_divide_the_width_are_refused) {
  config_of read;
  const auto config = read([](auto& m) {
    m.keys.erase("llama.attention.key_length");
    m.keys["llama.attention.head_count"] = std::uint32_t{5};
    m.keys["llama.attention.head_count_kv"] = std::uint32_t{5};
  });
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, "model_invalid");
}

TEST(decoder_config, another_architecture_is_unsupported_and_named) {
  config_of read;
  const auto config = read([](auto& m) { m.keys["general.architecture"] = std::string("mamba"); });
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, "model_unsupported");
  for (const char* named : {"mamba", "llama", "gemma2", "gemma3"})
    EXPECT_NE(config.error().message.find(named), std::string::npos) << config.error().message;
}

TEST(decoder_config, llama_has_none_of_gemmas_parts) {
  config_of read;
  const auto config = read([](auto&) {});
  ASSERT_TRUE(config);
  EXPECT_EQ(config->embedding_scale, 1);
  EXPECT_FALSE(config->head_norms || config->post_norms || config->local_rope);
  EXPECT_EQ(config->gate, gate_function::silu);
  EXPECT_EQ(config->pairing, rope_pairing::norm);
  EXPECT_EQ(config->window, (std::vector<std::int32_t>{0, 0}));
  EXPECT_EQ(config->attention_cap, 0);
  EXPECT_EQ(config->logit_cap, 0);
}

TEST(decoder_config, gemma2) {
  config_of read;
  const auto config = read.gemma("gemma2", 5, [](auto& m) { m.keys["gemma2.attn_logit_softcapping"] = 5.0F; });
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->architecture, "gemma2");
  EXPECT_EQ(config->embedding_scale, std::sqrt(32.0F));
  EXPECT_TRUE(config->post_norms);
  EXPECT_FALSE(config->head_norms || config->local_rope);
  EXPECT_EQ(config->gate, gate_function::gelu);
  EXPECT_EQ(config->pairing, rope_pairing::neox);
  EXPECT_EQ(config->window, (std::vector<std::int32_t>{16, 0, 16, 0, 16}));
  EXPECT_EQ(config->attention_cap, 5);
  EXPECT_EQ(config->logit_cap, 30);  // what the family has where no key says so
  EXPECT_FLOAT_EQ(config->attention_scale, 0.35355339F);

  const auto silent = read.gemma("gemma2", 2, [](auto& m) { m.keys.erase("gemma2.attention.sliding_window"); });
  ASSERT_TRUE(silent);
  EXPECT_EQ(silent->window, (std::vector<std::int32_t>{4096, 0}));
  EXPECT_EQ(silent->attention_cap, 50);
}

TEST(decoder_config, gemma3) {
  config_of read;
  const auto config = read.gemma("gemma3", 7, [](auto& m) {
    m.keys["gemma3.rope.freq_base"] = 1e6F;
    m.keys["gemma3.rope.scaling.type"] = std::string("linear");
    m.keys["gemma3.rope.scaling.factor"] = 8.0F;
  });
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_TRUE(config->post_norms && config->head_norms);
  EXPECT_EQ(config->window, (std::vector<std::int32_t>{16, 16, 16, 16, 16, 0, 16}));
  EXPECT_EQ(config->attention_cap, 0);
  EXPECT_EQ(config->logit_cap, 0);
  EXPECT_EQ(config->rope.base, 1e6);
  EXPECT_EQ(config->rope.scaling, rope_scaling::linear);
  ASSERT_TRUE(config->local_rope);
  EXPECT_EQ(config->local_rope->base, 10000);
  EXPECT_EQ(config->local_rope->dims, 8);
  EXPECT_EQ(config->local_rope->scaling, rope_scaling::none);

  const auto stated = read.gemma("gemma3", 2, [](auto& m) { m.keys["gemma3.rope.freq_base_swa"] = 500.0F; });
  ASSERT_TRUE(stated);
  EXPECT_EQ(stated->local_rope->base, 500);
  const auto none = read.gemma("gemma3", 2, [](auto& m) { m.keys.erase("gemma3.attention.sliding_window"); });
  ASSERT_TRUE(none);
  EXPECT_EQ(none->window, (std::vector<std::int32_t>{0, 0}));
}

TEST(decoder_config, the_window_pattern_is_a_period_or_a_list) {
  config_of read;
  const auto window = [&](const gguf_value& pattern) {
    const auto config =
        read.gemma("gemma3", 4, [&](auto& m) { m.keys["gemma3.attention.sliding_window_pattern"] = pattern; });
    return config ? config->window : std::vector<std::int32_t>{};
  };
  EXPECT_EQ(window(std::uint32_t{3}), (std::vector<std::int32_t>{16, 16, 0, 16}));
  EXPECT_EQ(window(std::uint32_t{1}), (std::vector<std::int32_t>{0, 0, 0, 0}));
  EXPECT_EQ(window(std::vector<std::int32_t>{0, 1, 1, 0}), (std::vector<std::int32_t>{0, 16, 16, 0}));
  EXPECT_EQ(window(std::vector<bool>{true, false, false, true}), (std::vector<std::int32_t>{16, 0, 0, 16}));
  for (const gguf_value& bad :
       {gguf_value(std::uint32_t{0}), gguf_value(std::uint32_t{2000}), gguf_value(std::vector<std::int32_t>{1, 0, 1}),
        gguf_value(std::vector<std::int32_t>{1, 0, 1, 2}), gguf_value(std::string("local"))}) {
    const auto config =
        read.gemma("gemma3", 4, [&](auto& m) { m.keys["gemma3.attention.sliding_window_pattern"] = bad; });
    ASSERT_FALSE(config);
    EXPECT_EQ(config.error().code, "model_invalid");
    EXPECT_NE(config.error().message.find("sliding_window_pattern"), std::string::npos) << config.error().message;
  }
}

TEST(decoder_config, the_27b_sizes_scale_scores_by_the_width_of_a_head_in_the_residual) {
  config_of read;
  const struct {
    const char* architecture;
    std::uint32_t layers;
    float width;
  } cases[] = {{"gemma2", 46, 16}, {"gemma2", 45, 8}, {"gemma3", 62, 16}, {"gemma3", 46, 8}};
  for (const auto& c : cases) {
    const auto config = read.gemma(c.architecture, c.layers, [&](auto& m) {
      m.keys[std::string(c.architecture) + ".attention.head_count"] = std::uint32_t{2};
    });
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_FLOAT_EQ(config->attention_scale, 1 / std::sqrt(c.width)) << c.architecture << " " << c.layers;
  }
}

TEST(decoder_config, gemma_values_out_of_range_are_refused) {
  config_of read;
  const auto refused = [&](const char* key, const gguf_value& value) {
    const auto config = read.gemma(std::string(key).substr(0, 6), 2, [&](auto& m) { m.keys[key] = value; });
    ASSERT_FALSE(config) << key;
    EXPECT_EQ(config.error().code, "model_invalid");
    EXPECT_NE(config.error().message.find(key), std::string::npos) << config.error().message;
  };
  refused("gemma2.attn_logit_softcapping", -1.0F);
  refused("gemma2.final_logit_softcapping", std::numeric_limits<float>::quiet_NaN());
  refused("gemma2.attention.sliding_window", std::numeric_limits<std::uint32_t>::max());
  refused("gemma3.rope.freq_base_swa", 1.0F);
  refused("gemma3.block_count", std::uint32_t{0});
}

TEST(decoder_config, counts_may_be_arrays) {
  config_of read;
  const auto config = read([](auto& m) {
    m.keys["llama.feed_forward_length"] = std::vector<std::int32_t>{48, 96};
    m.keys["llama.attention.head_count_kv"] = std::vector<std::int32_t>{2, 2};
  });
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->ff, (std::vector<std::int32_t>{48, 96}));
  EXPECT_EQ(config->kv_heads, 2);
}

TEST(decoder_config, rope_scaling_says_the_context) {
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

TEST(decoder_config, frequency_factors_are_checked) {
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
