#include "gpu/cpu/llama_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

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

/// Reads keys and remembers the first failure, so that a reader of many keys checks once.
class key_reader {
 public:
  explicit key_reader(const gguf_file& file) : file_(file) {}

  std::optional<error> failure;

  std::int64_t count(const std::string& key, std::int64_t most, std::optional<std::int64_t> absent = std::nullopt) {
    if (failure) return 1;
    const auto value = file_.find_uint(key);
    if (!value) return refuse(value.error());
    if (!*value) return absent ? *absent : refuse_key(key, "is missing", 1);
    if (**value < 1 || **value > static_cast<std::uint64_t>(most))
      return refuse_key(key, fmt::format("is {}, not between 1 and {}", **value, most), 1);
    return static_cast<std::int64_t>(**value);
  }

  double number(const std::string& key, double least, double most, std::optional<double> absent = std::nullopt) {
    if (failure) return 1;
    const auto value = file_.find_float(key);
    if (!value) return static_cast<double>(refuse(value.error()));
    if (!*value) return absent ? *absent : static_cast<double>(refuse_key(key, "is missing", 1));
    if (!(**value >= least && **value <= most))  // NaN is refused too
      return static_cast<double>(refuse_key(key, fmt::format("is {}, not between {} and {}", **value, least, most), 1));
    return **value;
  }

  std::string_view text(const std::string& key, std::string_view absent) {
    if (failure) return absent;
    const auto value = file_.find_string(key);
    if (!value) {
      failure = value.error();
      return absent;
    }
    return value->value_or(absent);
  }

  /// A count for each layer: one number for all, or an array of `layers`.
  std::vector<std::int32_t> per_layer(const std::string& key, std::int64_t layers, std::int64_t most,
                                      std::optional<std::int64_t> absent = std::nullopt) {
    if (failure) return {};
    if (!file_.is_array(key))
      return std::vector<std::int32_t>(static_cast<std::size_t>(layers),
                                       static_cast<std::int32_t>(count(key, most, absent)));
    const auto values = file_.find_ints(key);
    if (!values) {
      failure = values.error();
      return {};
    }
    if (static_cast<std::int64_t>((*values)->size()) != layers) {
      refuse_key(key, fmt::format("has {} entries for {} layers", (*values)->size(), layers), 1);
      return {};
    }
    std::vector<std::int32_t> result;
    for (const std::int64_t value : **values) {
      if (value < 1 || value > most) {
        refuse_key(key, fmt::format("holds {}, not between 1 and {}", value, most), 1);
        return {};
      }
      result.push_back(static_cast<std::int32_t>(value));
    }
    return result;
  }

  std::int64_t refuse_key(const std::string& key, std::string_view what, std::int64_t result,
                          std::string code = "model_invalid") {
    if (!failure) failure = error{std::move(code), fmt::format("{}: the key {} {}.", file_.file_name(), key, what)};
    return result;
  }

 private:
  std::int64_t refuse(const error& why) {
    failure = why;
    return 1;
  }

  const gguf_file& file_;
};

std::int32_t same_in_all_layers(key_reader& keys, const std::string& key, const std::vector<std::int32_t>& values) {
  if (values.empty()) return 1;
  if (std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) != values.end())
    keys.refuse_key(key, "differs between layers, which is not supported", 0, "model_unsupported");
  return values.front();
}

void read_rope(key_reader& keys, const gguf_file& file, llama_config& config) {
  rope_config& rope = config.rope;
  const std::string dims = "llama.rope.dimension_count";
  rope.dims = static_cast<std::int32_t>(keys.count(dims, max_head_dim, config.head_dim));
  if (rope.dims != config.head_dim)
    keys.refuse_key(dims, fmt::format("is {} where a head has {} elements", rope.dims, config.head_dim), 0);
  rope.base = keys.number("llama.rope.freq_base", 1.0 + 1e-6, 1e15, 10000.0);

  const std::string type_key = "llama.rope.scaling.type";
  const std::string_view type = keys.text(type_key, "linear");
  const std::string factor_key = "llama.rope.scaling.factor";
  // Old files say it under another name; 0 stands for none.
  double factor = keys.number(file.has(factor_key) ? factor_key : "llama.rope.scale_linear", 0, max_factor, 1.0);
  if (factor == 0) factor = 1;
  if (factor < 1 / max_factor) keys.refuse_key(factor_key, fmt::format("is {}", factor), 0);
  if (type == "linear") {
    rope.scaling = factor == 1 ? rope_scaling::none : rope_scaling::linear;
  } else if (type == "yarn") {
    rope.scaling = rope_scaling::yarn;
    if (factor < 1) keys.refuse_key(factor_key, fmt::format("is {}; YaRN needs 1 or more", factor), 0);
  } else if (type != "none") {
    keys.refuse_key(type_key, fmt::format("is \"{}\", which is not supported", type.substr(0, 40)), 0,
                    "model_unsupported");
  }
  rope.factor = rope.scaling == rope_scaling::none ? 1 : factor;
  rope.magnitude = keys.number("llama.rope.scaling.attn_factor", 1e-3, 1e3, 1.0);
  const std::string original_key = "llama.rope.scaling.original_context_length";
  rope.original_context = static_cast<double>(keys.count(original_key, max_context, config.context));
  if (rope.scaling != rope_scaling::none && file.has(original_key))
    config.context = static_cast<std::int32_t>(
        std::clamp<double>(rope.original_context * rope.factor, config.context, static_cast<double>(max_context)));
  if (rope.scaling == rope_scaling::yarn) {
    rope.beta_fast = keys.number("llama.rope.scaling.yarn_beta_fast", 1e-3, 1e6, 32.0);
    rope.beta_slow = keys.number("llama.rope.scaling.yarn_beta_slow", 1e-3, 1e6, 1.0);
    for (const char* name : {"yarn_log_multiplier", "yarn_ext_factor", "yarn_attn_factor"}) {
      const std::string key = fmt::format("llama.rope.scaling.{}", name);
      if (file.has(key)) keys.refuse_key(key, "is set, which is not supported", 0, "model_unsupported");
    }
  }
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

result<llama_config> read_llama_config(const gguf_file& file) {
  const auto architecture = file.get_string("general.architecture");
  if (!architecture) return std::unexpected(architecture.error());
  if (*architecture != "llama")
    return fail("model_unsupported",
                fmt::format("{}: models of the architecture \"{}\" are not supported; \"llama\" is.", file.file_name(),
                            architecture->substr(0, 40)));
  const auto experts = file.find_uint("llama.expert_count");
  if (!experts) return std::unexpected(experts.error());
  if (experts->value_or(0) > 0)
    return fail("model_unsupported", fmt::format("{}: the key llama.expert_count is {}; models with experts are not "
                                                 "supported.",
                                                 file.file_name(), **experts));

  key_reader keys(file);
  llama_config config;
  config.layers = static_cast<std::int32_t>(keys.count("llama.block_count", max_layers));
  config.dim = static_cast<std::int32_t>(keys.count("llama.embedding_length", max_dim));
  config.context = static_cast<std::int32_t>(keys.count("llama.context_length", max_context));

  const std::string heads = "llama.attention.head_count";
  const std::string kv_heads = "llama.attention.head_count_kv";
  config.heads = same_in_all_layers(keys, heads, keys.per_layer(heads, config.layers, max_heads));
  config.kv_heads =
      same_in_all_layers(keys, kv_heads, keys.per_layer(kv_heads, config.layers, max_heads, config.heads));
  if (config.heads % config.kv_heads != 0)
    keys.refuse_key(kv_heads, fmt::format("is {}, which does not divide the {} heads", config.kv_heads, config.heads),
                    0);

  const std::string key_length = "llama.attention.key_length";
  if (!file.has(key_length) && config.dim % config.heads != 0)
    keys.refuse_key(heads, fmt::format("is {}, which does not divide the width {}", config.heads, config.dim), 0);
  config.head_dim =
      static_cast<std::int32_t>(keys.count(key_length, max_head_dim, std::max(1, config.dim / config.heads)));
  if (config.head_dim % 2 != 0 || config.head_dim > max_head_dim)
    keys.refuse_key(
        file.has(key_length) ? key_length : heads,
        fmt::format("makes heads of {} elements; an even number up to {} is needed", config.head_dim, max_head_dim), 0);
  const std::string value_length = "llama.attention.value_length";
  if (const auto value = keys.count(value_length, max_head_dim, config.head_dim); value != config.head_dim)
    keys.refuse_key(value_length,
                    fmt::format("is {} where keys have {}, which is not supported", value, config.head_dim), 0,
                    "model_unsupported");
  if (static_cast<std::int64_t>(config.heads) * config.head_dim > max_ff)
    keys.refuse_key(heads,
                    fmt::format("is {}: {} elements of query are too many", config.heads,
                                static_cast<std::int64_t>(config.heads) * config.head_dim),
                    0);

  config.ff = keys.per_layer("llama.feed_forward_length", config.layers, max_ff);
  config.norm_epsilon = static_cast<float>(keys.number("llama.attention.layer_norm_rms_epsilon", 1e-12, 1e-1));
  // 0 stands for the usual scale.
  const double scale = keys.number("llama.attention.scale", 0, 1e6, 0);
  config.attention_scale = static_cast<float>(scale > 0 ? scale : 1 / std::sqrt(static_cast<double>(config.head_dim)));
  if (!keys.failure) read_rope(keys, file, config);
  if (keys.failure) return std::unexpected(std::move(*keys.failure));
  if (auto ok = read_freq_factors(file, config.rope); !ok) return std::unexpected(std::move(ok.error()));
  return config;
}

}  // namespace kvern::gpu::cpu
