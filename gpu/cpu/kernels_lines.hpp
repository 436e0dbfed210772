#pragma once

// Cached lines of every type over the sixteen lanes of a simd_*.hpp: widened, narrowed and quantised; see
// kernels_elementwise.hpp, which is included first.

#include "gpu/cpu/kernels.hpp"

namespace kvern::gpu::cpu {
namespace {

/// Elements of a line. `value` is what attention computes with: for int8 the integer, which a scale multiplies later.
struct f32_line {
  using value = float;
  static constexpr bool scaled = false;
  static vf widen(const float* p) { return load(p); }
  static void transpose_lines(const float* const* lines, float* out) { transpose(lines, out, widen); }
};
struct f16_line {
  using value = std::uint16_t;
  static constexpr bool scaled = false;
  static vf widen(const std::uint16_t* p) { return load_half(p); }
};
struct bf16_line {
  using value = std::uint16_t;
  static constexpr bool scaled = false;
  static vf widen(const std::uint16_t* p) { return load_bf16(p); }
};
struct int8_line {
  using value = std::int8_t;
  static constexpr bool scaled = true;
  static vf widen(const std::int8_t* p) { return load_int8(p); }
  static void transpose_lines(const std::int8_t* const* lines, float* out) { transpose_int8(lines, out); }
};

template <class E>
inline void widen(const typename E::value* in, float* out, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) store(out + i, E::widen(in + i));
  if (i == n) return;
  typename E::value padded[16] = {};
  for (std::int64_t j = i; j < n; ++j) padded[j - i] = in[j];
  store_some(out + i, E::widen(padded), n - i);
}

void widen_half_kernel(const std::uint16_t* in, float* out, std::int64_t n) { widen<f16_line>(in, out, n); }
void widen_bf16_kernel(const std::uint16_t* in, float* out, std::int64_t n) { widen<bf16_line>(in, out, n); }

/// To the nearest, ties to even; NaN stays one.
inline void store_bf16(std::uint16_t* p, vf x) {
  const vi b = bits(x), upper = shift_right<16>(b);
  const vi odd = bit_and(upper, broadcast(std::int32_t{1}));
  const vi rounded = shift_right<16>(add(b, add(odd, broadcast(std::int32_t{0x7fff}))));
  store_words(p, where_nan(x, bit_or(upper, broadcast(std::int32_t{0x40})), rounded));
}

template <class F>
inline void narrow(const float* in, std::uint16_t* out, std::int64_t n, F put) {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) put(out + i, load(in + i));
  if (i == n) return;
  std::uint16_t padded[16];
  put(padded, load_some(in + i, n - i));
  for (std::int64_t j = i; j < n; ++j) out[j] = padded[j - i];
}

void narrow_half_kernel(const float* in, std::uint16_t* out, std::int64_t n) { narrow(in, out, n, store_half); }
void narrow_bf16_kernel(const float* in, std::uint16_t* out, std::int64_t n) { narrow(in, out, n, store_bf16); }

/// One span of quantise_line_args. Returns the scale, f16.
inline std::uint16_t quantise_values(const float* x, std::int64_t n, std::int8_t* quants) {
  const vi magnitude = broadcast(std::int32_t{0x7fffffff});
  vf peaks = broadcast(0.0F);
  for (std::int64_t i = 0; i < n; i += 16)
    peaks = max(from_bits(bit_and(bits(load_some(x + i, n - i)), magnitude)), peaks);  // NaN leaves them
  std::uint16_t halves[16];
  store_half(halves, broadcast(largest(peaks) / 127.0F));
  const std::uint16_t scale = halves[0] == 0x7c00 ? std::uint16_t{0x7bff} : halves[0];
  for (int i = 0; i < 16; ++i) halves[i] = scale;
  const vf divisor = load_half(halves), magic = broadcast(round_magic);
  const vf least = broadcast(-127.0F), most = broadcast(127.0F);
  const vi none = broadcast(std::int32_t{0});
  for (std::int64_t i = 0; i < n; i += 16) {
    const vf v = load_some(x + i, n - i);
    const vf within = min(max(div(v, divisor), least), most);
    const vi q = scale == 0 ? none : where_nan(v, none, sub(bits(add(within, magic)), bits(magic)));
    if (n - i >= 16) {
      store_bytes(quants + i, q);
    } else {
      std::int8_t padded[16];
      store_bytes(padded, q);
      for (std::int64_t j = i; j < n; ++j) quants[j] = padded[j - i];
    }
  }
  return scale;
}

void quantise_line_kernel(const quantise_line_args& a) {
  std::byte* scales = a.scales;
  for (int row = 0; row < a.rows; ++row) {
    for (std::int64_t i = 0; i < a.cols; i += a.span) {
      const std::int64_t left = a.cols - i, at = row * a.cols + i;
      const std::uint16_t scale = quantise_values(a.x + at, left < a.span ? left : a.span, a.quants + at);
      __builtin_memcpy(scales, &scale, sizeof scale);
      scales += sizeof scale;
    }
  }
}

}  // namespace
}  // namespace kvern::gpu::cpu
