// The reference: sixteen lanes in plain C++. simd_scalar.hpp comes before what is written over its lanes.
// clang-format off
#include "gpu/cpu/simd_scalar.hpp"
#include "gpu/cpu/kernels_elementwise.hpp"
#include "gpu/cpu/kernels_rows.hpp"
#include "gpu/cpu/kernels_lines.hpp"
#include "gpu/cpu/kernels_attention.hpp"
#include "gpu/cpu/kernels_table.hpp"
// clang-format on

namespace kvern::gpu::cpu {
namespace {

std::uint16_t half_at(const std::uint8_t* p, int i) {
  std::uint16_t h;
  std::memcpy(&h, p + 2 * i, sizeof h);
  return h;
}

/// The integer product of one block for one row and output; `offset` is what the stored quants are above the real ones.
///
/// Bounds: |q| <= 16256 and 32 of them. Q4: 15 * 16256 * 32 < 2^23; Q8, before the offset: 255 * 16256 * 32 < 2^27, the
/// offset's share 128 * 16256 * 32 < 2^27. Every partial sum stays far inside 32 bits.
std::int32_t block_product(packing p, const std::uint8_t* quants, int o, const std::int8_t* x, int rows, int r,
                           bool fine, std::int32_t sum) {
  std::int32_t dot = 0;
  for (int k = 0; k < block_cols; ++k) {
    const int piece = k / 4, byte = 4 * o + k % 4;
    std::int32_t w;
    if (p == packing::q8_0) {
      w = quants[64 * piece + byte];
    } else {
      const int both = quants[64 * (piece % 4) + byte];
      w = piece < 4 ? both & 15 : both >> 4;
    }
    const int at = (piece * rows + r) * 4 + k % 4;
    const std::int32_t q = fine ? x[at] * 128 + x[at + 8 * rows * 4] : x[at];
    dot += w * q;
  }
  const std::int32_t offset = p == packing::q8_0 ? 128 : p == packing::q4_0 ? 8 : 0;
  return dot - offset * sum;
}

void strip_scalar(packing p, int rows, const tile_args& a) {
  const int pieces = a.fine ? 16 : 8;
  for (int r = 0; r < rows; ++r) {
    for (int o = 0; o < a.outputs; ++o) {
      float acc = 0;
      for (std::int64_t b = 0; b < a.blocks; ++b) {
        const std::uint8_t* const scales = a.strip + a.layout.scales + b * a.layout.scale_step;
        const std::int32_t dot =
            block_product(p, a.strip + b * a.layout.quant_step, o, a.x.quants + b * pieces * rows * 4, rows, r, a.fine,
                          a.x.sums[b * rows + r]);
        const float scale = half_to_float(half_at(scales, o)) * a.x.scales[b * rows + r];
        acc = std::fma(scale, static_cast<float>(dot), acc);
        if (p == packing::q4_1) {
          acc = std::fma(half_to_float(half_at(scales, strip_rows + o)), a.x.scaled_sums[b * rows + r], acc);
        }
      }
      a.out[r * a.out_stride + o] = acc;
    }
  }
}

void tile_scalar(packing p, int rows, const tile_args& a) {
  each_strip(a, [&](const tile_args& one) { strip_scalar(p, rows, one); });
}

constexpr kernels table = make_table(tile_scalar);

}  // namespace

const kernels& scalar_kernels() { return table; }

}  // namespace kvern::gpu::cpu
