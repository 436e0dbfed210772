#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <string>
#include <vector>

#include "base/token.hpp"
#include "gpu/quants/dequantize.hpp"
#include "model/gguf/gguf.hpp"

/// A llama, gemma2 or gemma3 model written from the definitions in float64, one position at a time, for tests: shares
/// no code with the backend except the reading of tensors.
namespace kvern::test {

class reference_decoder {
 public:
  using numbers = std::vector<double>;

  struct shape {
    int layers = 0, dim = 0, heads = 0, kv_heads = 0, head_dim = 0;
    double epsilon = 1e-5;
    double base = 10000;
    double angle_scale = 1;  ///< linear scaling: 1 / factor
    double magnitude = 1;    ///< of cosine and sine
    bool gemma = false;      ///< scaled embedding, norms after the blocks, GELU, pairs (i, i + head_dim / 2)
    bool head_norms = false;
    std::vector<int> windows{};  ///< [layers], or empty for none
    double local_base = 0;       ///< of layers with a window, without scaling; 0: as the others
    double score_width = 0;      ///< scores are divided by its root; 0: head_dim
    double attention_cap = 0, logit_cap = 0;
  };

  reference_decoder(const gguf_file& file, const shape& s) : file_(file), s_(s) {}

  /// Logits of every position.
  std::vector<numbers> run(const std::vector<token_id>& tokens) {
    keys_.assign(static_cast<std::size_t>(s_.layers), {});
    values_ = keys_;
    std::vector<numbers> logits;
    for (std::size_t p = 0; p < tokens.size(); ++p) logits.push_back(position(tokens[p], static_cast<int>(p)));
    return logits;
  }

 private:
  numbers tensor(const std::string& name) const {
    const gguf_tensor* t = file_.find_tensor(name);
    if (t == nullptr) return {};
    std::vector<float> values(t->elements());
    gpu::dequantize(t->type, t->data, values);
    return {values.begin(), values.end()};
  }

  numbers multiply(const std::string& name, const numbers& x) const {
    const numbers w = tensor(name + ".weight");
    const numbers bias = tensor(name + ".bias");
    numbers out(w.size() / x.size());
    for (std::size_t o = 0; o < out.size(); ++o) {
      for (std::size_t i = 0; i < x.size(); ++i) out[o] += w[o * x.size() + i] * x[i];
      if (!bias.empty()) out[o] += bias[o];
    }
    return out;
  }

  static double capped(double x, double cap) { return cap > 0 ? cap * std::tanh(x / cap) : x; }
  int window(std::size_t layer) const { return s_.windows.empty() ? 0 : s_.windows[layer]; }

  numbers norm(const std::string& name, const numbers& x) const {
    const numbers w = tensor(name + ".weight");
    double squares = 0;
    for (const double v : x) squares += v * v;
    numbers out(x);
    for (std::size_t i = 0; i < x.size(); ++i)
      out[i] = x[i] * w[i] / std::sqrt(squares / static_cast<double>(x.size()) + s_.epsilon);
    return out;
  }

  void norm_heads(const std::string& name, numbers& x) const {
    const auto n = static_cast<std::ptrdiff_t>(s_.head_dim);
    for (auto at = x.begin(); at != x.end(); at += n) {
      const numbers head = norm(name, {at, at + n});
      std::copy(head.begin(), head.end(), at);
    }
  }

  void rotate(numbers& x, std::size_t layer, int p) const {
    const numbers factors = tensor("rope_freqs.weight");
    const auto n = static_cast<std::size_t>(s_.head_dim);
    const bool local = window(layer) > 0 && s_.local_base > 0;
    for (std::size_t at = 0; at < x.size(); at += n)
      for (std::size_t i = 0; i < n / 2; ++i) {
        double angle = p * std::pow(local ? s_.local_base : s_.base, -2.0 * static_cast<double>(i) / s_.head_dim);
        if (!local) angle *= s_.angle_scale;
        if (!factors.empty()) angle /= factors[i];
        double& first = x[at + (s_.gemma ? i : 2 * i)];
        double& second = x[at + (s_.gemma ? i + n / 2 : 2 * i + 1)];
        const double a = first;
        const double b = second;
        first = s_.magnitude * (a * std::cos(angle) - b * std::sin(angle));
        second = s_.magnitude * (a * std::sin(angle) + b * std::cos(angle));
      }
  }

  numbers attend(const numbers& q, std::size_t layer) const {
    numbers out(q.size());
    const auto n = static_cast<std::size_t>(s_.head_dim);
    const double width = s_.score_width > 0 ? s_.score_width : s_.head_dim;
    const std::size_t keys = keys_[layer].size();
    const auto reach = static_cast<std::size_t>(window(layer));
    const std::size_t oldest = reach > 0 && keys > reach ? keys - reach : 0;
    for (std::size_t h = 0; h < static_cast<std::size_t>(s_.heads); ++h) {
      const std::size_t kv = h / static_cast<std::size_t>(s_.heads / s_.kv_heads) * n;
      numbers weights(keys);
      double sum = 0;
      for (std::size_t p = oldest; p < keys; ++p) {
        double score = 0;
        for (std::size_t d = 0; d < n; ++d) score += q[h * n + d] * keys_[layer][p][kv + d];
        weights[p] = std::exp(capped(score / std::sqrt(width), s_.attention_cap));
        sum += weights[p];
      }
      for (std::size_t p = oldest; p < keys; ++p)
        for (std::size_t d = 0; d < n; ++d) out[h * n + d] += weights[p] / sum * values_[layer][p][kv + d];
    }
    return out;
  }

  double gate(double x) const {
    if (!s_.gemma) return x / (1 + std::exp(-x));
    return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  }

  numbers position(token_id token, int p) {
    const auto dim = static_cast<std::size_t>(s_.dim);
    const numbers embedding = tensor("token_embd.weight");
    const auto first = embedding.begin() + static_cast<std::ptrdiff_t>(dim) * token;
    numbers x(first, first + static_cast<std::ptrdiff_t>(dim));
    if (s_.gemma)
      for (double& v : x) v *= std::sqrt(static_cast<double>(dim));
    const auto add = [&](const std::string& post, const numbers& block) {
      const numbers y = s_.gemma ? norm(post, block) : block;
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
    };
    for (std::size_t layer = 0; layer < static_cast<std::size_t>(s_.layers); ++layer) {
      const std::string block = "blk." + std::to_string(layer) + ".";
      numbers h = norm(block + "attn_norm", x);
      numbers q = multiply(block + "attn_q", h);
      numbers k = multiply(block + "attn_k", h);
      if (s_.head_norms) {
        norm_heads(block + "attn_q_norm", q);
        norm_heads(block + "attn_k_norm", k);
      }
      rotate(q, layer, p);
      rotate(k, layer, p);
      keys_[layer].push_back(k);
      values_[layer].push_back(multiply(block + "attn_v", h));
      add(block + "post_attention_norm", multiply(block + "attn_output", attend(q, layer)));
      h = norm(block + "ffn_norm", x);
      numbers gated = multiply(block + "ffn_gate", h);
      const numbers up = multiply(block + "ffn_up", h);
      for (std::size_t i = 0; i < gated.size(); ++i) gated[i] = gate(gated[i]) * up[i];
      add(block + "post_ffw_norm", multiply(block + "ffn_down", gated));
    }
    const bool tied = file_.find_tensor("output.weight") == nullptr;
    numbers logits = multiply(tied ? "token_embd" : "output", norm("output_norm", x));
    for (double& v : logits) v = capped(v, s_.logit_cap);
    return logits;
  }

  const gguf_file& file_;
  shape s_;
  std::vector<std::vector<numbers>> keys_, values_;  // [layer][position]
};

}  // namespace kvern::test
