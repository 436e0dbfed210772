#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/token.hpp"
#include "gpu/quants/dequantize.hpp"
#include "model/gguf/gguf.hpp"

/// A llama model written from the definitions in float64, one position at a time, for tests: shares no code with the
/// backend except the reading of tensors.
namespace kvern::test {

class reference_llama {
 public:
  using numbers = std::vector<double>;

  struct shape {
    int layers = 0, dim = 0, heads = 0, kv_heads = 0, head_dim = 0;
    double epsilon = 1e-5;
    double base = 10000;
    double angle_scale = 1;  ///< linear scaling: 1 / factor
    double magnitude = 1;    ///< of cosine and sine
  };

  reference_llama(const gguf_file& file, const shape& s) : file_(file), s_(s) {}

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

  numbers norm(const std::string& name, const numbers& x) const {
    const numbers w = tensor(name + ".weight");
    double squares = 0;
    for (const double v : x) squares += v * v;
    numbers out(x);
    for (std::size_t i = 0; i < x.size(); ++i)
      out[i] = x[i] * w[i] / std::sqrt(squares / static_cast<double>(x.size()) + s_.epsilon);
    return out;
  }

  void rotate(numbers& x, int p) const {
    const numbers factors = tensor("rope_freqs.weight");
    const auto n = static_cast<std::size_t>(s_.head_dim);
    for (std::size_t at = 0; at < x.size(); at += n)
      for (std::size_t i = 0; i < n / 2; ++i) {
        double angle = p * std::pow(s_.base, -2.0 * static_cast<double>(i) / s_.head_dim) * s_.angle_scale;
        if (!factors.empty()) angle /= factors[i];
        const double a = x[at + 2 * i];
        const double b = x[at + 2 * i + 1];
        x[at + 2 * i] = s_.magnitude * (a * std::cos(angle) - b * std::sin(angle));
        x[at + 2 * i + 1] = s_.magnitude * (a * std::sin(angle) + b * std::cos(angle));
      }
  }

  numbers attend(const numbers& q, std::size_t layer) const {
    numbers out(q.size());
    const auto n = static_cast<std::size_t>(s_.head_dim);
    for (std::size_t h = 0; h < static_cast<std::size_t>(s_.heads); ++h) {
      const std::size_t kv = h / static_cast<std::size_t>(s_.heads / s_.kv_heads) * n;
      numbers weights;
      double sum = 0;
      for (const numbers& k : keys_[layer]) {
        double score = 0;
        for (std::size_t d = 0; d < n; ++d) score += q[h * n + d] * k[kv + d];
        weights.push_back(std::exp(score / std::sqrt(static_cast<double>(n))));
        sum += weights.back();
      }
      for (std::size_t p = 0; p < weights.size(); ++p)
        for (std::size_t d = 0; d < n; ++d) out[h * n + d] += weights[p] / sum * values_[layer][p][kv + d];
    }
    return out;
  }

  numbers position(token_id token, int p) {
    const auto dim = static_cast<std::size_t>(s_.dim);
    const numbers embedding = tensor("token_embd.weight");
    const auto first = embedding.begin() + static_cast<std::ptrdiff_t>(dim) * token;
    numbers x(first, first + static_cast<std::ptrdiff_t>(dim));
    const auto add = [&x](const numbers& y) {
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
    };
    for (std::size_t layer = 0; layer < static_cast<std::size_t>(s_.layers); ++layer) {
      const std::string block = "blk." + std::to_string(layer) + ".";
      numbers h = norm(block + "attn_norm", x);
      numbers q = multiply(block + "attn_q", h);
      numbers k = multiply(block + "attn_k", h);
      rotate(q, p);
      rotate(k, p);
      keys_[layer].push_back(k);
      values_[layer].push_back(multiply(block + "attn_v", h));
      add(multiply(block + "attn_output", attend(q, layer)));
      h = norm(block + "ffn_norm", x);
      numbers gate = multiply(block + "ffn_gate", h);
      const numbers up = multiply(block + "ffn_up", h);
      for (std::size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
      add(multiply(block + "ffn_down", gate));
    }
    const bool tied = file_.find_tensor("output.weight") == nullptr;
    return multiply(tied ? "token_embd" : "output", norm("output_norm", x));
  }

  const gguf_file& file_;
  shape s_;
  std::vector<std::vector<numbers>> keys_, values_;  // [layer][position]
};

}  // namespace kvern::test
