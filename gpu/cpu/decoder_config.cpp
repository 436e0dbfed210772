#include "gpu/cpu/decoder_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string_view>
#include <utility>

#include "gpu/cpu/config_keys.hpp"

namespace kvern::gpu::cpu {
namespace {

// Far above any model there is, and low enough that products of two fit 32 bits of elements times 4 bytes in 64.
constexpr std::int64_t max_layers = 1024;
constexpr std::int64_t max_dim = 1 << 18;
constexpr std::int64_t max_heads = 4096;
constexpr std::int64_t max_head_dim = 4096;
constexpr std::int64_t max_ff = 1 << 22;
constexpr std::int64_t max_context = 1 << 24;
constexpr double max_factor = 1e6;
constexpr double max_base = 1e15;
constexpr double max_cap = 1e6;

/// What no key says, or says only where a model departs from it.
struct architecture {
  std::string_view name;
  rope_pairing pairing = rope_pairing::norm;
  bool rope_factors = false;  ///< may have `rope_freqs.weight`
  bool scaled_embedding = false;
  bool head_norms = false;
  bool post_norms = false;
  gate_function gate = gate_function::silu;
  double attention_cap = 0;                  ///< where the key is absent
  double logit_cap = 0;                      ///< likewise
  std::int64_t window = 0;                   ///< likewise
  std::int64_t window_period = 0;            ///< the last of so many layers sees all; 0: windows are unknown here
  std::optional<double> local_base = {};     ///< of layers with a window, which no scaling touches
  std::int32_t layers_scaled_by_width = -1;  ///< the size whose scores are scaled by dim / heads, not by head_dim
};

constexpr architecture architectures[] = {
    {.name = "llama", .rope_factors = true},
    {.name = "gemma2",
     .pairing = rope_pairing::neox,
     .scaled_embedding = true,
     .post_norms = true,
     .gate = gate_function::gelu,
     .attention_cap = 50,
     .logit_cap = 30,
     .window = 4096,
     .window_period = 2,
     .layers_scaled_by_width = 46},
    {.name = "gemma3",
     .pairing = rope_pairing::neox,
     .scaled_embedding = true,
     .head_norms = true,
     .post_norms = true,
     .gate = gate_function::gelu,
     .window_period = 6,
     .local_base = 10000.0,
     .layers_scaled_by_width = 62},
};

result<const architecture*> find_architecture(const gguf_file& file) {
  const auto name = file.get_string("general.architecture");
  if (!name) return std::unexpected(name.error());
  std::string known;
  for (const architecture& a : architectures) {
    if (a.name == *name) return &a;
    known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", a.name);
  }
  return fail("model_unsupported", fmt::format("{}: models of the architecture \"{}\" are not supported; these are: "
                                               "{}.",
                                               file.file_name(), name->substr(0, 40), known));
}

std::int32_t same_in_all_layers(config_keys& keys, std::string_view name, const std::vector<std::int32_t>& values) {
  if (values.empty()) return 1;
  if (std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) != values.end())
    keys.refuse(name, "differs between layers, which is not supported", "model_unsupported");
  return values.front();
}

void read_heads(config_keys& keys, decoder_config& config) {
  const char* const heads = "attention.head_count";
  const char* const kv_heads = "attention.head_count_kv";
  config.heads = same_in_all_layers(keys, heads, keys.per_layer(heads, config.layers, max_heads));
  config.kv_heads =
      same_in_all_layers(keys, kv_heads, keys.per_layer(kv_heads, config.layers, max_heads, config.heads));
  if (config.heads % config.kv_heads != 0)
    keys.refuse(kv_heads, fmt::format("is {}, which does not divide the {} heads", config.kv_heads, config.heads));

  const char* const key_length = "attention.key_length";
  if (!keys.has(key_length) && config.dim % config.heads != 0)
    keys.refuse(heads, fmt::format("is {}, which does not divide the width {}", config.heads, config.dim));
  config.head_dim =
      static_cast<std::int32_t>(keys.count(key_length, max_head_dim, std::max(1, config.dim / config.heads)));
  if (config.head_dim % 2 != 0 || config.head_dim > max_head_dim)
    keys.refuse(
        keys.has(key_length) ? key_length : heads,
        fmt::format("makes heads of {} elements; an even number up to {} is needed", config.head_dim, max_head_dim));
  const char* const value_length = "attention.value_length";
  if (const auto value = keys.count(value_length, max_head_dim, config.head_dim); value != config.head_dim)
    keys.refuse(value_length, fmt::format("is {} where keys have {}, which is not supported", value, config.head_dim),
                "model_unsupported");
  const std::int64_t query = static_cast<std::int64_t>(config.heads) * config.head_dim;
  if (query > max_ff) keys.refuse(heads, fmt::format("is {}: {} elements of query are too many", config.heads, query));
}

void read_attention(config_keys& keys, const architecture& a, decoder_config& config) {
  // 0 stands for the usual scale.
  const double stated = keys.number("attention.scale", 0, 1e6, 0);
  const double width = config.layers == a.layers_scaled_by_width
                           ? static_cast<double>(config.dim) / static_cast<double>(config.heads)
                           : static_cast<double>(config.head_dim);
  config.attention_scale = static_cast<float>(stated > 0 ? stated : 1 / std::sqrt(width));
  config.attention_cap = static_cast<float>(keys.number("attn_logit_softcapping", 0, max_cap, a.attention_cap));
  config.logit_cap = static_cast<float>(keys.number("final_logit_softcapping", 0, max_cap, a.logit_cap));

  config.window.assign(static_cast<std::size_t>(config.layers), 0);
  if (a.window_period == 0) return;
  const auto window = static_cast<std::int32_t>(keys.count("attention.sliding_window", max_context, a.window, 0));
  const char* const pattern = "attention.sliding_window_pattern";
  std::vector<std::int32_t> local;
  if (keys.is_array(pattern)) {
    local = keys.array(pattern, config.layers, 0, 1);
  } else {
    const std::int64_t period = keys.count(pattern, max_layers, a.window_period);
    for (std::int32_t layer = 0; layer < config.layers; ++layer) local.push_back(layer % period + 1 < period ? 1 : 0);
  }
  for (std::size_t layer = 0; layer < local.size(); ++layer) config.window[layer] = local[layer] != 0 ? window : 0;
}

void read_rope(config_keys& keys, const architecture& a, decoder_config& config) {
  rope_config& rope = config.rope;
  const char* const dims = "rope.dimension_count";
  rope.dims = static_cast<std::int32_t>(keys.count(dims, max_head_dim, config.head_dim));
  if (rope.dims != config.head_dim)
    keys.refuse(dims, fmt::format("is {} where a head has {} elements", rope.dims, config.head_dim));
  rope.base = keys.number("rope.freq_base", 1.0 + 1e-6, max_base, 10000.0);

  const char* const type_key = "rope.scaling.type";
  const std::string_view type = keys.text(type_key, "linear");
  const char* const factor_key = "rope.scaling.factor";
  // Old files say it under another name; 0 stands for none.
  double factor = keys.number(keys.has(factor_key) ? factor_key : "rope.scale_linear", 0, max_factor, 1.0);
  if (factor == 0) factor = 1;
  if (factor < 1 / max_factor) keys.refuse(factor_key, fmt::format("is {}", factor));
  if (type == "linear") {
    rope.scaling = factor == 1 ? rope_scaling::none : rope_scaling::linear;
  } else if (type == "yarn") {
    rope.scaling = rope_scaling::yarn;
    if (factor < 1) keys.refuse(factor_key, fmt::format("is {}; YaRN needs 1 or more", factor));
  } else if (type != "none") {
    keys.refuse(type_key, fmt::format("is \"{}\", which is not supported", type.substr(0, 40)), "model_unsupported");
  }
  rope.factor = rope.scaling == rope_scaling::none ? 1 : factor;
  rope.magnitude = keys.number("rope.scaling.attn_factor", 1e-3, 1e3, 1.0);
  const char* const original_key = "rope.scaling.original_context_length";
  rope.original_context = static_cast<double>(keys.count(original_key, max_context, config.context));
  if (rope.scaling != rope_scaling::none && keys.has(original_key))
    config.context = static_cast<std::int32_t>(
        std::clamp<double>(rope.original_context * rope.factor, config.context, static_cast<double>(max_context)));
  if (rope.scaling == rope_scaling::yarn) {
    rope.beta_fast = keys.number("rope.scaling.yarn_beta_fast", 1e-3, 1e6, 32.0);
    rope.beta_slow = keys.number("rope.scaling.yarn_beta_slow", 1e-3, 1e6, 1.0);
    for (const char* name :
         {"rope.scaling.yarn_log_multiplier", "rope.scaling.yarn_ext_factor", "rope.scaling.yarn_attn_factor"})
      if (keys.has(name)) keys.refuse(name, "is set, which is not supported", "model_unsupported");
  }
  if (a.local_base)
    config.local_rope = rope_config{.dims = rope.dims,
                                    .base = keys.number("rope.freq_base_swa", 1.0 + 1e-6, max_base, a.local_base),
                                    .magnitude = rope.magnitude};
}

result<void> read_freq_factors(const gguf_file& file, rope_config& rope) {
  const gguf_tensor* tensor = file.find_tensor("rope_freqs.weight");
  if (tensor == nullptr) return {};
  const auto half = static_cast<std::size_t>(rope.dims / 2);
  if (tensor->type != ggml_type::f32 || tensor->elements() != half || tensor->data.size() != half * sizeof(float))
    return fail("model_invalid", fmt::format("{}: the tensor rope_freqs.weight must hold {} values of type F32.",
                                             file.file_name(), half));
  rope.freq_factors.resize(half);
  std::memcpy(rope.freq_factors.data(), tensor->data.data(), half * sizeof(float));
  for (const float factor : rope.freq_factors)
    if (!(factor >= 1e-6F && factor <= 1e6F))
      return fail("model_invalid", fmt::format("{}: the tensor rope_freqs.weight holds {}, which divides no angle.",
                                               file.file_name(), factor));
  return {};
}

}  // namespace

result<decoder_config> read_decoder_config(const gguf_file& file) {
  const auto found = find_architecture(file);
  if (!found) return std::unexpected(found.error());
  const architecture& a = **found;
  config_keys keys(file, a.name);
  if (const auto experts = keys.count("expert_count", max_heads, 0, 0); experts > 0)
    keys.refuse("expert_count", fmt::format("is {}; models with experts are not supported", experts),
                "model_unsupported");

  decoder_config config;
  config.architecture = a.name;
  config.layers = static_cast<std::int32_t>(keys.count("block_count", max_layers));
  config.dim = static_cast<std::int32_t>(keys.count("embedding_length", max_dim));
  config.context = static_cast<std::int32_t>(keys.count("context_length", max_context));
  config.ff = keys.per_layer("feed_forward_length", config.layers, max_ff);
  config.norm_epsilon = static_cast<float>(keys.number("attention.layer_norm_rms_epsilon", 1e-12, 1e-1));
  config.embedding_scale = a.scaled_embedding ? std::sqrt(static_cast<float>(config.dim)) : 1.0F;
  config.head_norms = a.head_norms;
  config.post_norms = a.post_norms;
  config.gate = a.gate;
  config.pairing = a.pairing;
  read_heads(keys, config);
  if (!keys.failure) read_attention(keys, a, config);
  if (!keys.failure) read_rope(keys, a, config);
  if (keys.failure) return std::unexpected(std::move(*keys.failure));
  if (a.rope_factors)
    if (auto ok = read_freq_factors(file, config.rope); !ok) return std::unexpected(std::move(ok.error()));
  return config;
}

}  // namespace kvern::gpu::cpu
