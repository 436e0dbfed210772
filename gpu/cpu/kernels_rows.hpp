#pragma once

// Quantisation of activations and float dot products over the sixteen lanes of a simd_*.hpp; see
// kernels_elementwise.hpp, which is included first.

#include "gpu/cpu/kernels.hpp"

namespace kvern::gpu::cpu {
namespace {

/// Symmetric: fine q = round(16256 x / absmax) = 128 hi + lo with hi in [-127, 127] and lo in [-64, 63], fast
/// q = round(127 x / absmax). A block with a value that is not finite gets scale NaN, so every product with it is NaN;
/// a block below 2e-34 everywhere, where the reciprocal would overflow, counts as zeros.
void quantise_kernel(const quantise_args& a) {
  const vf magic = broadcast(round_magic);
  const vi magnitude = broadcast(std::int32_t{0x7fffffff});
  const int pieces = a.fine ? 16 : 8;
  const float levels = a.fine ? 16256.0F : 127.0F;
  for (std::int64_t b = 0; b < a.blocks; ++b) {
    const vf x0 = load(a.x + 32 * b), x1 = load(a.x + 32 * b + 16);
    const std::int32_t peak_bits = largest(max(bit_and(bits(x0), magnitude), bit_and(bits(x1), magnitude)));
    const bool finite = peak_bits < 0x7f800000;
    float peak;
    __builtin_memcpy(&peak, &peak_bits, sizeof peak);
    const bool zero = !finite || peak < 2e-34F;
    const vf inverse = broadcast(zero ? 0.0F : levels / peak);
    const float scale = finite ? (zero ? 0.0F : peak / levels) : __builtin_nanf("");
    const vi bias = bits(magic);
    // Not finite: 0 * inf is NaN, so the integers are chosen here and not computed.
    const vi q0 = finite ? sub(bits(fma(x0, inverse, magic)), bias) : broadcast(std::int32_t{0});
    const vi q1 = finite ? sub(bits(fma(x1, inverse, magic)), bias) : broadcast(std::int32_t{0});
    const std::int32_t first = sum(q0), total = first + sum(q1);

    alignas(64) std::int8_t bytes[64];
    if (a.fine) {
      const vi half = broadcast(std::int32_t{64});
      const vi h0 = shift_right<7>(add(q0, half)), h1 = shift_right<7>(add(q1, half));
      store_bytes(bytes, h0);
      store_bytes(bytes + 16, h1);
      store_bytes(bytes + 32, sub(q0, shift_left<7>(h0)));
      store_bytes(bytes + 48, sub(q1, shift_left<7>(h1)));
    } else {
      store_bytes(bytes, q0);
      store_bytes(bytes + 16, q1);
    }
    std::int8_t* const to = a.quants + (b * pieces * a.rows + a.row) * 4;
    for (int t = 0; t < pieces; ++t) __builtin_memcpy(to + t * a.rows * 4, bytes + 4 * t, 4);
    const std::int64_t at = b * a.rows + a.row;
    a.scales[at] = scale;
    a.scaled_sums[at] = scale * static_cast<float>(total);
    a.sums[at] = total;
    a.first_sums[at] = first;
  }
}

template <int R, int O>
inline void dot_part(const float* x, std::int64_t x_stride, const float* w, std::int64_t w_stride, std::int64_t cols,
                     float* acc) {
  vf s[R][O];
  for (int r = 0; r < R; ++r) {
    for (int o = 0; o < O; ++o) s[r][o] = load(acc + (r * 4 + o) * 16);
  }
  const auto step = [&](std::int64_t k, auto read) {
    vf b[O];
    for (int o = 0; o < O; ++o) b[o] = read(w + o * w_stride + k);
    for (int r = 0; r < R; ++r) {
      const vf a = read(x + r * x_stride + k);
      for (int o = 0; o < O; ++o) s[r][o] = fma(b[o], a, s[r][o]);
    }
  };
  std::int64_t k = 0;
  for (; k + 16 <= cols; k += 16) step(k, [](const float* p) { return load(p); });
  if (k < cols) step(k, [&](const float* p) { return load_some(p, cols - k); });
  for (int r = 0; r < R; ++r) {
    for (int o = 0; o < O; ++o) store(acc + (r * 4 + o) * 16, s[r][o]);
  }
}

void dot_kernel(const float* x, std::int64_t x_stride, int rows, const float* w, std::int64_t w_stride,
                std::int64_t cols, float* acc) {
  int r = 0;
  for (; r + dot_side <= rows; r += dot_side) {
    for (int o = 0; o < 4; o += dot_side)
      dot_part<dot_side, dot_side>(x + r * x_stride, x_stride, w + o * w_stride, w_stride, cols,
                                   acc + (r * 4 + o) * 16);
  }
  for (; r < rows; ++r) dot_part<1, 4>(x + r * x_stride, x_stride, w, w_stride, cols, acc + r * 64);
}

void sum_lanes_kernel(const float* lanes, int n, float* out) {
  for (int i = 0; i < n; i += 4, lanes += 64)
    sum_four(load(lanes), load(lanes + 16), load(lanes + 32), load(lanes + 48), out + i);
}

}  // namespace
}  // namespace kvern::gpu::cpu
