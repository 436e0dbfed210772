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

/// Rows of x and of w times columns [k, k + 16), or fewer at the end, added to s. `read(p, n)` reads n <= 16 values.
template <int R, int O, class T, class Read>
inline void dot_step(const float* x, std::int64_t x_stride, const T* w, std::int64_t w_stride, std::int64_t n,
                     Read read, vf (&s)[R][O]) {
  vf b[O];
#pragma GCC unroll 4
  for (int o = 0; o < O; ++o) b[o] = read(w + o * w_stride, n);
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    const vf a = n == 16 ? load(x + r * x_stride) : load_some(x + r * x_stride, n);
#pragma GCC unroll 4
    for (int o = 0; o < O; ++o) s[r][o] = fma(b[o], a, s[r][o]);
  }
}

template <int R, int O, class T, class Read>
inline void dot_part(const float* x, std::int64_t x_stride, const T* w, std::int64_t w_stride, std::int64_t cols,
                     Read read, float* acc) {
  vf s[R][O];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int o = 0; o < O; ++o) s[r][o] = load(acc + (r * 4 + o) * 16);
  }
  std::int64_t k = 0;
  for (; k + 16 <= cols; k += 16) dot_step<R, O>(x + k, x_stride, w + k, w_stride, 16, read, s);
  if (k < cols) dot_step<R, O>(x + k, x_stride, w + k, w_stride, cols - k, read, s);
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int o = 0; o < O; ++o) store(acc + (r * 4 + o) * 16, s[r][o]);
  }
}

template <class T, class Read>
void dot_rows(const dot_args& a, const T* w, Read read) {
  int r = 0;
  for (; r + dot_side <= a.rows; r += dot_side) {
    for (int o = 0; o < 4; o += dot_side)
      dot_part<dot_side, dot_side>(a.x + r * a.x_stride, a.x_stride, w + o * a.w_stride, a.w_stride, a.cols, read,
                                   a.acc + (r * 4 + o) * 16);
  }
  for (; r < a.rows; ++r) dot_part<1, 4>(a.x + r * a.x_stride, a.x_stride, w, a.w_stride, a.cols, read, a.acc + r * 64);
}

void dot_kernel(const dot_args& a) {
  if (a.element == line_element::f32) {
    dot_rows(a, static_cast<const float*>(a.w),
             [](const float* p, std::int64_t n) { return n == 16 ? load(p) : load_some(p, n); });
    return;
  }
  // What is short is widened from a copy.
  const auto whole = [](const std::uint16_t* p, std::int64_t n, std::uint16_t* copy) {
    if (n == 16) return p;
    __builtin_memset(copy, 0, 32);
    __builtin_memcpy(copy, p, static_cast<std::size_t>(n) * 2);
    return static_cast<const std::uint16_t*>(copy);
  };
  const auto* const w = static_cast<const std::uint16_t*>(a.w);
  if (a.element == line_element::f16) {
    dot_rows(a, w, [&](const std::uint16_t* p, std::int64_t n) {
      std::uint16_t copy[16];
      return load_half(whole(p, n, copy));
    });
  } else {
    dot_rows(a, w, [&](const std::uint16_t* p, std::int64_t n) {
      std::uint16_t copy[16];
      return load_bf16(whole(p, n, copy));
    });
  }
}

void sum_lanes_kernel(const float* lanes, int n, float* out) {
  for (int i = 0; i < n; i += 4, lanes += 64)
    sum_four(load(lanes), load(lanes + 16), load(lanes + 32), load(lanes + 48), out + i);
}

}  // namespace
}  // namespace kvern::gpu::cpu
