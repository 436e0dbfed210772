#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "gpu/backend.hpp"
#include "gpu/cache/memory_block.hpp"
#include "gpu/cpu/decoder_config.hpp"
#include "gpu/cpu/decoder_weights.hpp"
#include "gpu/cpu/kv_store.hpp"
#include "gpu/cpu/matrix.hpp"
#include "gpu/cpu/row_angles.hpp"
#include "gpu/cpu/thread_team.hpp"

namespace kvern::gpu::cpu {

/// The forward pass of a decoder over one step; what its architecture has is read from the config. Owns the activations
/// of a step of `max_rows` rows; nothing is allocated later. Not thread-safe.
///
/// A row's values never depend on another row's except through attention, and every operation works on a row in one
/// fixed order: how rows are spread over threads changes nothing.
class decoder_forward {
 public:
  struct settings {
    std::int32_t max_rows = 0;
    std::int32_t context = 0;  ///< positions whose rotations are computed beforehand; others cost each row that has one
    activation_mode activations = activation_mode::fine;
    isa kernels = isa::scalar;
  };

  /// `config` and `weights` belong together; both and `team` must outlive this. Errors: `out_of_memory`.
  static result<std::unique_ptr<decoder_forward>> create(const decoder_config& config, const decoder_weights& weights,
                                                         const settings& how, thread_team& team);

  /// Computes `s`, which must have passed step_check: stages the lines of its rows in `store` and leaves the logits of
  /// the rows that want them.
  void run(const step& s, kv_store& store);

  /// Logits [vocab] of a row of the last run; empty when it wanted none.
  std::span<const float> logits(std::size_t row) const;

  /// Forgets the last run.
  void reset() { logits_of_.clear(); }

 private:
  decoder_forward(const decoder_config& config, const decoder_weights& weights, row_angles angles, const settings& how,
                  thread_team& team);
  result<void> allocate();

  void embed(const step& s);
  void attention(const step& s, std::int32_t layer, kv_store& store);
  /// Norms the heads of q and k, [heads + kv_heads][head_dim].
  void norm_heads(const decoder_layer& weights, float* qk) const;
  /// After the last layer's attention nobody reads the other rows any more.
  void keep_wanted_rows();
  void attention_product(const decoder_layer& weights);
  void feed_forward(std::int32_t layer);
  /// Norms the product by `post` unless that is empty, adds it to the residual and norms the sum by `next`.
  void add_and_norm(const linear& product, const std::vector<float>& post, const std::vector<float>& next);
  void head();

  /// Calls `task(row)` for the rows of the step, on the team when they are worth waking it: `width` elements each.
  template <class F>
  void for_rows(std::int64_t rows, std::int64_t width, F&& task);
  float* row_of(const memory_block& buffer, std::int64_t row, std::int64_t width) const {
    return buffer.as<float>() + row * width;
  }

  const decoder_config& config_;
  const decoder_weights& weights_;
  row_angles angles_;
  settings how_;
  thread_team& team_;
  activations input_;  ///< of the current matrix product

  std::int64_t rows_ = 0;       ///< being computed
  std::int64_t qkv_width_ = 0;  ///< q, k and v of a row
  std::int64_t most_ff_ = 0;
  memory_block residual_;                ///< [row][dim]
  memory_block normed_;                  ///< [row][dim]
  memory_block product_;                 ///< [row][dim], what a block adds to the residual
  memory_block qkv_;                     ///< [row][qkv_width]
  memory_block q_;                       ///< [row][head][head_dim]
  memory_block attended_;                ///< [row][head][head_dim]
  memory_block gate_up_;                 ///< [row][2 * ff]
  memory_block logits_;                  ///< [row that wants logits][vocab]
  std::vector<std::int32_t> logits_of_;  ///< [row] its index in logits_, or -1
};

}  // namespace kvern::gpu::cpu
