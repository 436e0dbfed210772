#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "gpu/cache/memory_block.hpp"

namespace kvern::gpu::cpu {

enum class rope_scaling { none, linear, yarn };

/// How positions become angles. Pair i of `dims / 2` turns by `position * base^(-2 i / dims)`, divided by
/// `freq_factors[i]`, then scaled.
struct rope_config {
  std::int32_t dims = 0;  ///< rotated elements of a head, even
  double base = 10000;
  rope_scaling scaling = rope_scaling::none;
  double factor = 1;            ///< of linear and YaRN scaling
  double original_context = 0;  ///< YaRN: positions before scaling
  double beta_fast = 32;        ///< YaRN: pairs that turn more often than this in the original context are not scaled
  double beta_slow = 1;         ///< YaRN: pairs that turn less often are scaled wholly
  double magnitude = 1;         ///< multiplies cosine and sine, beside YaRN's own magnitude
  std::vector<float> freq_factors{};  ///< [dims / 2], or empty for ones
};

/// Cosines and sines of positions, computed in double and rounded once: those of a context in a table, any other where
/// it is asked for, by the same formula. The table takes `context * dims` floats: less than a context's KV lines.
/// Immutable.
class rope_table {
 public:
  /// `config` and `context` must have been checked. Errors: `out_of_memory`.
  static result<rope_table> create(const rope_config& config, std::int32_t context);

  std::int32_t context() const { return context_; }
  std::int32_t half() const { return static_cast<std::int32_t>(frequency_.size()); }

  /// [cos | sin][dims / 2], for a position within the context.
  const float* angles(std::int32_t position) const {
    return memory_.as<const float>() + 2 * static_cast<std::int64_t>(position) * half();
  }
  /// The same, for any position from 0 on: the bits that a table of a larger context would hold.
  void compute(std::int32_t position, float* out) const;

 private:
  rope_table(std::int32_t context, std::vector<double> frequency, double magnitude, memory_block memory)
      : context_(context), frequency_(std::move(frequency)), magnitude_(magnitude), memory_(std::move(memory)) {}

  std::int32_t context_;
  std::vector<double> frequency_;  // [dims / 2] angle at position 1
  double magnitude_;
  memory_block memory_;  // [position][cos | sin][dims / 2]
};

}  // namespace kvern::gpu::cpu
