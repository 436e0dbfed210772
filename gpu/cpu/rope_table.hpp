#pragma once

#include <cstdint>
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

/// Cosines and sines for all positions of a context, computed in double and rounded once. `context * dims` floats: less
/// than a context's KV lines. Immutable.
class rope_table {
 public:
  /// `config` and `context` must have been checked. Errors: `out_of_memory`.
  static result<rope_table> create(const rope_config& config, std::int32_t context);

  /// [dims / 2], for a position within the context.
  const float* cos(std::int32_t position) const { return at(position); }
  const float* sin(std::int32_t position) const { return at(position) + half_; }
  std::int32_t half() const { return half_; }

 private:
  rope_table(std::int32_t half, memory_block memory) : half_(half), memory_(std::move(memory)) {}
  const float* at(std::int32_t position) const {
    return memory_.as<const float>() + 2 * static_cast<std::int64_t>(position) * half_;
  }

  std::int32_t half_;
  memory_block memory_;  // [position][cos | sin][dims / 2]
};

}  // namespace kvern::gpu::cpu
