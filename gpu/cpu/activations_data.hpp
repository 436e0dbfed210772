#pragma once

#include <cstdint>
#include <vector>

#include "gpu/cpu/kernels.hpp"
#include "gpu/cpu/matrix.hpp"

namespace kvern::gpu::cpu {

/// The rows as given, and quantised in groups of 8, 4, 2 and 1 rows whose quants are interleaved (see tile_input).
struct activations::data {
  activation_mode mode;
  const kernels* table;

  const float* x = nullptr;
  int rows = 0;
  int cols = 0;
  std::int64_t stride = 0;

  /// Whether the quantised form exists: columns are a multiple of 32.
  bool quantised = false;
  std::int64_t blocks = 0;
  std::vector<std::int8_t> quants;
  std::vector<float> scales, scaled_sums;
  std::vector<std::int32_t> sums, first_sums;

  bool fine() const { return mode == activation_mode::fine; }
  int block_bytes() const { return fine() ? 2 * block_cols : block_cols; }

  /// The group that begins at row `first`.
  tile_input group(int first) const {
    const std::int64_t at = first * blocks;
    return {quants.data() + at * block_bytes(), scales.data() + at, scaled_sums.data() + at, sums.data() + at,
            first_sums.data() + at};
  }
};

/// Rows of the group that begins at row `first` of `rows`.
constexpr int group_rows(int first, int rows) {
  int size = tile_rows;
  while (size > rows - first) size /= 2;
  return size;
}

}  // namespace kvern::gpu::cpu
