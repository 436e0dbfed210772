#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/gguf/gguf.hpp"
#include "tests/support/golden.hpp"

/// Small decoder models with random weights, for tests: written as GGUF, changed key by key before.
namespace kvern::test {

using gguf_value = std::variant<std::uint32_t, float, std::string, std::vector<std::int32_t>, std::vector<bool>>;

struct tiny_tensor {
  std::vector<std::uint64_t> dims;
  std::vector<float> values;
};

struct tiny_model {
  std::map<std::string, gguf_value> keys;
  std::map<std::string, tiny_tensor> tensors;

  /// Writes it into `folder` and opens it.
  result<std::shared_ptr<const gguf_file>> open(const scratch_folder& folder) const {
    std::string bytes = "GGUF";
    const auto put = [&bytes](const auto& value) {
      char raw[sizeof value];
      std::memcpy(raw, &value, sizeof value);
      bytes.append(raw, sizeof value);
    };
    const auto put_text = [&](const std::string& text) {
      put(std::uint64_t{text.size()});
      bytes += text;
    };
    put(std::uint32_t{3});
    put(std::uint64_t{tensors.size()});
    put(std::uint64_t{keys.size()});
    for (const auto& [key, value] : keys) {
      put_text(key);
      if (const auto* number = std::get_if<std::uint32_t>(&value)) {
        put(std::uint32_t{4});
        put(*number);
      } else if (const auto* real = std::get_if<float>(&value)) {
        put(std::uint32_t{6});
        put(*real);
      } else if (const auto* text = std::get_if<std::string>(&value)) {
        put(std::uint32_t{8});
        put_text(*text);
      } else if (const auto* flags = std::get_if<std::vector<bool>>(&value)) {
        put(std::uint32_t{9});
        put(std::uint32_t{7});
        put(std::uint64_t{flags->size()});
        for (const bool flag : *flags) put(static_cast<std::uint8_t>(flag ? 1 : 0));
      } else {
        const auto& list = std::get<std::vector<std::int32_t>>(value);
        put(std::uint32_t{9});
        put(std::uint32_t{5});
        put(std::uint64_t{list.size()});
        for (const std::int32_t item : list) put(item);
      }
    }
    std::uint64_t offset = 0;
    for (const auto& [name, tensor] : tensors) {
      put_text(name);
      put(static_cast<std::uint32_t>(tensor.dims.size()));
      for (const std::uint64_t dim : tensor.dims) put(dim);
      put(std::uint32_t{0});
      put(offset);
      offset = (offset + tensor.values.size() * sizeof(float) + 31) / 32 * 32;
    }
    bytes.resize((bytes.size() + 31) / 32 * 32);
    for (const auto& [name, tensor] : tensors) {
      for (const float value : tensor.values) put(value);
      bytes.resize((bytes.size() + 31) / 32 * 32);
    }
    const auto path = folder.path() / "tiny.gguf";
    std::filesystem::remove(path);  // a file that is still mapped keeps its bytes
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return gguf_file::open(path);
  }

  void add(const std::string& name, std::vector<std::uint64_t> dims, std::mt19937& random, double spread) {
    std::uint64_t count = 1;
    for (const std::uint64_t dim : dims) count *= dim;
    std::normal_distribution<double> normal(0, spread);
    tiny_tensor tensor{std::move(dims), std::vector<float>(count)};
    for (float& value : tensor.values) value = static_cast<float>(normal(random));
    tensors[name] = std::move(tensor);
  }
};

struct tiny_options {
  std::uint32_t layers = 2, dim = 32, heads = 4, kv_heads = 2, head_dim = 8, vocab = 50, context = 128;
  std::vector<std::int32_t> ff{48, 48};
  bool tied = false;
  bool biases = false;
  std::string architecture = "llama";  ///< or gemma2, gemma3: tied, with their norms
  std::uint32_t window = 0;            ///< of gemma's local layers
};

/// F32 weights of a spread that keeps activations near 1.
inline tiny_model make_tiny_model(const tiny_options& o, unsigned seed = 1) {
  std::mt19937 random(seed);
  tiny_model m;
  const bool gemma = o.architecture != "llama";
  m.keys["general.architecture"] = o.architecture;
  const auto key = [&](const char* name, gguf_value value) { m.keys[o.architecture + "." + name] = std::move(value); };
  key("block_count", o.layers);
  key("embedding_length", o.dim);
  key("context_length", o.context);
  key("attention.head_count", o.heads);
  key("attention.head_count_kv", o.kv_heads);
  key("attention.key_length", o.head_dim);
  key("attention.value_length", o.head_dim);
  key("attention.layer_norm_rms_epsilon", 1e-5F);
  key("rope.freq_base", 10000.0F);
  key("rope.dimension_count", o.head_dim);
  key("feed_forward_length", o.ff);
  if (gemma) key("attention.sliding_window", o.window);

  const auto matrix = [&](const std::string& name, std::uint64_t in, std::uint64_t out) {
    m.add(name + ".weight", {in, out}, random, 1 / std::sqrt(static_cast<double>(in)));
    if (o.biases && name.starts_with("blk")) m.add(name + ".bias", {out}, random, 0.5);
  };
  const auto norm = [&](const std::string& name, std::uint64_t length) {
    m.add(name + ".weight", {length}, random, 1);
  };
  m.add("token_embd.weight", {o.dim, o.vocab}, random, 1);
  for (std::uint32_t l = 0; l < o.layers; ++l) {
    const std::string block = "blk." + std::to_string(l) + ".";
    const auto ff = static_cast<std::uint64_t>(o.ff[l]);
    norm(block + "attn_norm", o.dim);
    matrix(block + "attn_q", o.dim, o.heads * o.head_dim);
    matrix(block + "attn_k", o.dim, o.kv_heads * o.head_dim);
    matrix(block + "attn_v", o.dim, o.kv_heads * o.head_dim);
    matrix(block + "attn_output", o.heads * o.head_dim, o.dim);
    norm(block + "ffn_norm", o.dim);
    matrix(block + "ffn_gate", o.dim, ff);
    matrix(block + "ffn_up", o.dim, ff);
    matrix(block + "ffn_down", ff, o.dim);
    if (gemma) {
      norm(block + "post_attention_norm", o.dim);
      norm(block + "post_ffw_norm", o.dim);
    }
    if (o.architecture == "gemma3") {
      norm(block + "attn_q_norm", o.head_dim);
      norm(block + "attn_k_norm", o.head_dim);
    }
  }
  norm("output_norm", o.dim);
  if (!o.tied && !gemma) matrix("output", o.dim, o.vocab);
  return m;
}

inline tiny_model make_tiny_llama(const tiny_options& o = {}, unsigned seed = 1) { return make_tiny_model(o, seed); }

}  // namespace kvern::test
