#include "gpu/cpu/decoder_forward.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "gpu/cpu/ops.hpp"
#include "gpu/cpu/soft_cap.hpp"

namespace kvern::gpu::cpu {
namespace {

// Below so many elements an elementwise pass takes less time than waking the team.
constexpr std::int64_t inline_elements = 8192;
constexpr std::int64_t rows_in_task = 4;

}  // namespace

decoder_forward::decoder_forward(const decoder_config& config, const decoder_weights& weights, row_angles angles,
                                 const settings& how, thread_team& team)
    : config_(config),
      weights_(weights),
      angles_(std::move(angles)),
      how_(how),
      team_(team),
      input_(how.activations, how.kernels),
      qkv_width_(config.q_width() + 2 * std::int64_t{config.kv_width()}),
      most_ff_(*std::max_element(config.ff.begin(), config.ff.end())) {}

result<std::unique_ptr<decoder_forward>> decoder_forward::create(const decoder_config& config,
                                                                 const decoder_weights& weights, const settings& how,
                                                                 thread_team& team) {
  auto angles = row_angles::create(config, how.context, how.max_rows);
  if (!angles) return std::unexpected(std::move(angles.error()));
  std::unique_ptr<decoder_forward> made(new decoder_forward(config, weights, std::move(*angles), how, team));
  if (auto ok = made->allocate(); !ok) return std::unexpected(std::move(ok.error()));
  return made;
}

result<void> decoder_forward::allocate() {
  const std::pair<memory_block*, std::int64_t> buffers[] = {
      {&residual_, config_.dim}, {&normed_, config_.dim},      {&product_, config_.dim},
      {&qkv_, qkv_width_},       {&q_, config_.q_width()},     {&attended_, config_.q_width()},
      {&gate_up_, 2 * most_ff_}, {&logits_, weights_.vocab()},
  };
  for (const auto& [buffer, width] : buffers) {
    auto block = memory_block::create(
        static_cast<std::uint64_t>(how_.max_rows) * static_cast<std::uint64_t>(width) * sizeof(float),
        "the activations of a step");
    if (!block) return std::unexpected(std::move(block.error()));
    *buffer = std::move(*block);
  }
  logits_of_.reserve(static_cast<std::size_t>(how_.max_rows));
  // What the kernels keep of an input grows with it: once now for the widest of each kind.
  input_.assign(normed_.as<float>(), how_.max_rows, config_.dim, config_.dim, team_);
  input_.assign(attended_.as<float>(), how_.max_rows, config_.q_width(), config_.q_width(), team_);
  input_.assign(gate_up_.as<float>(), how_.max_rows, static_cast<int>(most_ff_), 2 * most_ff_, team_);
  return {};
}

template <class F>
void decoder_forward::for_rows(std::int64_t rows, std::int64_t width, F&& task) {
  if (rows * width <= inline_elements) {
    for (std::int64_t row = 0; row < rows; ++row) task(row);
    return;
  }
  team_.run((rows + rows_in_task - 1) / rows_in_task, [&](std::int64_t index) {
    const std::int64_t last = std::min(rows, (index + 1) * rows_in_task);
    for (std::int64_t row = index * rows_in_task; row < last; ++row) task(row);
  });
}

void decoder_forward::run(const step& s, kv_store& store) {
  rows_ = static_cast<std::int64_t>(s.rows.size());
  std::int32_t wanted = 0;
  logits_of_.clear();
  for (const step_row& row : s.rows) logits_of_.push_back(row.logits ? wanted++ : -1);
  angles_.find(s);
  embed(s);
  for (std::int32_t layer = 0; layer < config_.layers; ++layer) {
    const decoder_layer& weights = weights_.layers[static_cast<std::size_t>(layer)];
    attention(s, layer, store);
    if (layer + 1 == config_.layers) keep_wanted_rows();
    if (rows_ == 0) return;
    attention_product(weights);
    add_and_norm(weights.attention_out, weights.post_attention_norm, weights.ffn_norm);
    feed_forward(layer);
    const auto next = static_cast<std::size_t>(layer) + 1;
    add_and_norm(weights.down, weights.post_ffn_norm,
                 next < weights_.layers.size() ? weights_.layers[next].attention_norm : weights_.output_norm);
  }
  head();
}

void decoder_forward::embed(const step& s) {
  const std::int64_t dim = config_.dim;
  for_rows(rows_, dim, [&](std::int64_t row) {
    float* x = row_of(residual_, row, dim);
    weights_.embed(s.rows[static_cast<std::size_t>(row)].token, x);
    rms_norm(x, weights_.layers.front().attention_norm.data(), config_.norm_epsilon, row_of(normed_, row, dim), dim,
             how_.kernels);
  });
}

void decoder_forward::attention(const step& s, std::int32_t layer, kv_store& store) {
  const decoder_layer& weights = weights_.layers[static_cast<std::size_t>(layer)];
  const std::int64_t q_width = config_.q_width();
  const std::int64_t kv_width = config_.kv_width();
  const int rows = static_cast<int>(rows_);
  input_.assign(normed_.as<float>(), rows, config_.dim, config_.dim, team_);
  weights.qkv.multiply(input_, qkv_.as<float>(), qkv_width_, team_);

  for_rows(rows_, qkv_width_, [&](std::int64_t row) {
    float* qkv = row_of(qkv_, row, qkv_width_);
    weights.qkv.add_bias(qkv);
    if (config_.head_norms) norm_heads(weights, qkv);
    const float* const angles = angles_.of(layer, row);
    rope(qkv, config_.heads + config_.kv_heads, config_.head_dim, config_.rope.dims, angles,
         angles + config_.rope.dims / 2, config_.pairing, how_.kernels);
    std::copy_n(qkv, q_width, row_of(q_, row, q_width));
    store.stage(layer, row, qkv + q_width, qkv + q_width + kv_width);
  });

  store.attend(layer, s,
               {.heads = config_.heads,
                .scale = config_.attention_scale,
                .cap = config_.attention_cap,
                .window = config_.window[static_cast<std::size_t>(layer)]},
               q_.as<float>(), attended_.as<float>());
}

void decoder_forward::norm_heads(const decoder_layer& weights, float* qk) const {
  for (std::int32_t head = 0; head < config_.heads + config_.kv_heads; ++head, qk += config_.head_dim) {
    const std::vector<float>& norm = head < config_.heads ? weights.q_norm : weights.k_norm;
    rms_norm(qk, norm.data(), config_.norm_epsilon, qk, config_.head_dim, how_.kernels);
  }
}

void decoder_forward::attention_product(const decoder_layer& weights) {
  input_.assign(attended_.as<float>(), static_cast<int>(rows_), config_.q_width(), config_.q_width(), team_);
  weights.attention_out.multiply(input_, product_.as<float>(), config_.dim, team_);
}

void decoder_forward::keep_wanted_rows() {
  const auto move_up = [](const memory_block& buffer, std::int64_t width, std::int64_t from, std::int64_t to) {
    if (from != to) std::copy_n(buffer.as<float>() + from * width, width, buffer.as<float>() + to * width);
  };
  std::int64_t kept = 0;
  for (std::int64_t row = 0; row < rows_; ++row) {
    if (logits_of_[static_cast<std::size_t>(row)] < 0) continue;
    move_up(attended_, config_.q_width(), row, kept);
    move_up(residual_, config_.dim, row, kept);
    ++kept;
  }
  rows_ = kept;
}

void decoder_forward::add_and_norm(const linear& product, const std::vector<float>& post,
                                   const std::vector<float>& next) {
  const std::int64_t dim = config_.dim;
  for_rows(rows_, dim, [&](std::int64_t row) {
    float* added = row_of(product_, row, dim);
    float* x = row_of(residual_, row, dim);
    product.add_bias(added);
    if (!post.empty()) rms_norm(added, post.data(), config_.norm_epsilon, added, dim, how_.kernels);
    add(x, added, x, dim, how_.kernels);
    rms_norm(x, next.data(), config_.norm_epsilon, row_of(normed_, row, dim), dim, how_.kernels);
  });
}

void decoder_forward::feed_forward(std::int32_t layer) {
  const decoder_layer& weights = weights_.layers[static_cast<std::size_t>(layer)];
  const std::int64_t ff = config_.ff[static_cast<std::size_t>(layer)];
  const int rows = static_cast<int>(rows_);
  input_.assign(normed_.as<float>(), rows, config_.dim, config_.dim, team_);
  weights.gate_up.multiply(input_, gate_up_.as<float>(), 2 * ff, team_);
  for_rows(rows_, 2 * ff, [&](std::int64_t row) {
    float* gate = row_of(gate_up_, row, 2 * ff);
    weights.gate_up.add_bias(gate);
    if (config_.gate == gate_function::silu)
      silu_mul(gate, gate + ff, gate, ff, how_.kernels);
    else
      gelu_mul(gate, gate + ff, gate, ff, how_.kernels);
  });
  input_.assign(gate_up_.as<float>(), rows, static_cast<int>(ff), 2 * ff, team_);
  weights.down.multiply(input_, product_.as<float>(), config_.dim, team_);
}

void decoder_forward::head() {
  input_.assign(normed_.as<float>(), static_cast<int>(rows_), config_.dim, config_.dim, team_);
  const std::int64_t vocab = weights_.vocab();
  weights_.head.multiply(input_, logits_.as<float>(), vocab, team_);
  if (config_.logit_cap > 0)
    for_rows(rows_, vocab,
             [&](std::int64_t row) { soft_cap(row_of(logits_, row, vocab), config_.logit_cap, vocab, how_.kernels); });
}

std::span<const float> decoder_forward::logits(std::size_t row) const {
  if (row >= logits_of_.size() || logits_of_[row] < 0) return {};
  const std::int64_t vocab = weights_.vocab();
  return {row_of(logits_, logits_of_[row], vocab), static_cast<std::size_t>(vocab)};
}

}  // namespace kvern::gpu::cpu
