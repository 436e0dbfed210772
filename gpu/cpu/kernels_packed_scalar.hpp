#pragma once

// Products of packed weights in plain C++: the reference of kernels_packed_avx2.hpp and kernels_packed_avx512.hpp.
// After simd_scalar.hpp.

#include "gpu/cpu/kernels_packed_common.hpp"
#include "gpu/cpu/packed_strip.hpp"

namespace kvern::gpu::cpu {
namespace {

/// The integer product of inputs [first, last) of a block for one row and output.
///
/// Bounds: |q| <= 16256 and 32 of them. Quants of up to 6 bits: 63 * 16256 * 32 < 2^25; of 8, before the offset: 255 *
/// 16256 * 32 < 2^27, the offset's share 128 * 16256 * 32 < 2^27. Every partial sum stays far inside 32 bits.
std::int32_t block_product(const packed_block& w, int o, int first, int last, const std::int8_t* x, int rows, int r,
                           bool fine, std::int32_t sum) {
  std::int32_t dot = 0;
  for (int k = first; k < last; ++k) {
    const int at = (k / 4 * rows + r) * 4 + k % 4;
    const std::int32_t q = fine ? x[at] * 128 + x[at + 8 * rows * 4] : x[at];
    dot += w.quant(o, k) * q;
  }
  return dot - w.form.offset * sum;
}

void strip_scalar(packing p, int rows, const tile_args& a) {
  const int pieces = a.fine ? 16 : 8;
  for (int r = 0; r < rows; ++r) {
    for (int o = 0; o < a.outputs; ++o) {
      float acc = 0;
      for (std::int64_t b = 0; b < a.blocks; ++b) {
        const packed_block w(p, a.layout, a.strip, b);
        const std::int8_t* const x = a.x.quants + b * pieces * rows * 4;
        const std::int64_t at = b * rows + r;
        const int width = w.form.halves ? 16 : 32;
        const float x_scale = a.x.scales[at];
        for (int first = 0; first < 32; first += width) {
          const std::int32_t sum = !w.form.halves ? a.x.sums[at]
                                   : first == 0   ? a.x.first_sums[at]
                                                  : a.x.sums[at] - a.x.first_sums[at];
          const std::int32_t dot = block_product(w, o, first, first + width, x, rows, r, a.fine, sum);
          acc = std::fma(w.scale(o, first / 16) * x_scale, static_cast<float>(dot), acc);
          if (w.form.minima) acc = std::fma(w.minimum(o, first / 16), x_scale * static_cast<float>(sum), acc);
        }
      }
      a.out[r * a.out_stride + o] = acc;
    }
  }
}

void tile_scalar(packing p, int rows, const tile_args& a) {
  each_strip(rows, a, [&](const tile_args& one) { strip_scalar(p, rows, one); });
}

}  // namespace
}  // namespace kvern::gpu::cpu
