#pragma once

// Elementwise operations over the sixteen lanes of a simd_*.hpp, which is included first. Internal linkage: compiled
// once for each instruction set, in one order of operations.

#include "gpu/cpu/kernels.hpp"

namespace kvern::gpu::cpu {
namespace {

/// A value of which adding and subtracting rounds to an integer, ties to even; the low bits hold that integer.
constexpr float round_magic = 12582912.0F;  // 1.5 * 2^23

/// e^x within 2 ulp: x = n ln 2 + r with |r| <= ln 2 / 2, whose series to the 7th power errs by less than 1e-8. 2^n is
/// applied in two halves because it need not be a normal float of its own.
inline vf exponential(vf x) {
  const vf magic = broadcast(round_magic);
  x = min(broadcast(89.0F), max(broadcast(-88.0F), x));
  const vf t = fma(x, broadcast(1.44269504F), magic);
  const vf n = sub(t, magic);
  vf r = fma(n, broadcast(-0.693145752F), x);
  r = fma(n, broadcast(-1.42860677e-6F), r);
  vf p = fma(r, broadcast(1.98412698e-4F), broadcast(1.38888889e-3F));
  p = fma(p, r, broadcast(8.33333333e-3F));
  p = fma(p, r, broadcast(4.16666667e-2F));
  p = fma(p, r, broadcast(1.66666667e-1F));
  p = fma(p, r, broadcast(0.5F));
  p = fma(p, r, broadcast(1.0F));
  p = fma(p, r, broadcast(1.0F));
  const vi whole = sub(bits(t), bits(magic));
  const vi half = shift_right<1>(whole);
  const vi bias = broadcast(std::int32_t{127});
  p = mul(p, from_bits(shift_left<23>(add(half, bias))));
  p = mul(p, from_bits(shift_left<23>(add(sub(whole, half), bias))));
  return zero_below(x, broadcast(-87.3365448F), p);
}

/// 2^x for x <= 0 within 1 ulp, and 1 for 0: x = n + r with |r| <= 1/2, where a polynomial of degree 6 errs by less
/// than 2e-8 of the result. Below -125 it stays 2^-125, which is nothing beside the weight of 1 that each sum has; NaN
/// stays.
inline vf power_of_two(vf x) {
  const vf magic = broadcast(round_magic + 127);  // the low bits of t are those of the exponent of 2^n
  x = max(broadcast(-125.0F), x);
  const vf t = add(x, magic);
  const vf r = sub(x, sub(t, magic));
  vf p = fma(r, broadcast(1.53533663e-4F), broadcast(1.3398875e-3F));
  p = fma(p, r, broadcast(9.61843692e-3F));
  p = fma(p, r, broadcast(5.55033237e-2F));
  p = fma(p, r, broadcast(2.40226477e-1F));
  p = fma(p, r, broadcast(6.93147182e-1F));
  p = fma(p, r, broadcast(1.0F));
  return mul(p, from_bits(shift_left<23>(bits(t))));
}

/// tanh(x) within 4 ulp: below 0.625 an odd polynomial of degree 11 that errs by less than 2e-8 of the result, above it
/// 1 - 2 / (e^2x + 1), in which the exponential's error is halved at least.
inline vf hyperbolic_tangent(vf x) {
  const vf magnitude = from_bits(bit_and(bits(x), broadcast(std::int32_t{0x7fffffff})));
  const vf square = mul(x, x);
  vf p = fma(square, broadcast(-5.70498872745e-3F), broadcast(2.06390887954e-2F));
  p = fma(p, square, broadcast(-5.37397155531e-2F));
  p = fma(p, square, broadcast(1.33314422036e-1F));
  p = fma(p, square, broadcast(-3.33332819422e-1F));
  const vf small = fma(mul(p, square), x, x);
  const vf one = broadcast(1.0F);
  const vf size = sub(one, div(broadcast(2.0F), add(exponential(add(magnitude, magnitude)), one)));
  const vf large = from_bits(bit_or(bits(size), bit_and(bits(x), broadcast(std::int32_t{-0x7fffffff - 1}))));
  return select_below(magnitude, broadcast(0.625F), small, large);
}

inline vf soft_cap(vf x, vf cap, vf inverse) { return mul(cap, hyperbolic_tangent(mul(x, inverse))); }

/// x in the first `n` lanes, zeros in the others.
inline vf load_some(const float* x, std::int64_t n) {
  if (n >= 16) return load(x);
  float padded[16] = {};
  for (std::int64_t i = 0; i < n; ++i) padded[i] = x[i];
  return load(padded);
}

inline void store_some(float* out, vf x, std::int64_t n) {
  if (n >= 16) {
    store(out, x);
    return;
  }
  float padded[16];
  store(padded, x);
  for (std::int64_t i = 0; i < n; ++i) out[i] = padded[i];
}

template <class F>
inline void map(const float* a, const float* b, float* out, std::int64_t n, F f) {
  for (std::int64_t i = 0; i < n; i += 16)
    store_some(out + i, f(load_some(a + i, n - i), load_some(b + i, n - i)), n - i);
}

void rms_norm_kernel(const float* x, const float* weight, float eps, float* out, std::int64_t n) {
  vf squares = broadcast(0.0F);
  for (std::int64_t i = 0; i < n; i += 16) {
    const vf v = load_some(x + i, n - i);
    squares = fma(v, v, squares);
  }
  const vf scale = broadcast(1.0F / __builtin_sqrtf(sum(squares) / static_cast<float>(n) + eps));
  map(x, weight, out, n, [&](vf v, vf w) { return mul(mul(v, scale), w); });
}

void silu_mul_kernel(const float* gate, const float* up, float* out, std::int64_t n) {
  const vf one = broadcast(1.0F), zero = broadcast(0.0F);
  map(gate, up, out, n, [&](vf g, vf u) { return mul(div(g, add(one, exponential(sub(zero, g)))), u); });
}

/// gelu(g) = g / 2 * (1 + tanh(z)) = g / (1 + e^(-2 z)) with z = sqrt(2 / pi) * (g + 0.044715 g^3).
void gelu_mul_kernel(const float* gate, const float* up, float* out, std::int64_t n) {
  const vf one = broadcast(1.0F), cubic = broadcast(0.044715F), minus_two_root = broadcast(-1.59576912F);
  map(gate, up, out, n, [&](vf g, vf u) {
    const vf inner = mul(g, fma(mul(g, g), cubic, one));
    return mul(div(g, add(one, exponential(mul(inner, minus_two_root)))), u);
  });
}

void add_kernel(const float* a, const float* b, float* out, std::int64_t n) {
  map(a, b, out, n, [](vf x, vf y) { return add(x, y); });
}

void exp_kernel(const float* x, float* out, std::int64_t n) {
  map(x, x, out, n, [](vf v, vf) { return exponential(v); });
}

void weigh_kernel(const float* x, float* out, std::int64_t n) {
  map(x, x, out, n, [](vf v, vf) { return power_of_two(v); });
}

void soft_cap_kernel(const float* x, float cap, float* out, std::int64_t n) {
  const vf top = broadcast(cap), inverse = broadcast(1 / cap);
  map(x, x, out, n, [&](vf v, vf) { return soft_cap(v, top, inverse); });
}

void rotate_kernel(float* a, float* b, const float* c, const float* s, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += 16) {
    const vf x = load_some(a + i, n - i), y = load_some(b + i, n - i);
    const vf cosine = load_some(c + i, n - i), sine = load_some(s + i, n - i);
    store_some(a + i, sub(mul(x, cosine), mul(y, sine)), n - i);
    store_some(b + i, add(mul(x, sine), mul(y, cosine)), n - i);
  }
}

void rotate_adjacent_kernel(float* x, const float* c, const float* s, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float a = x[2 * i], b = x[2 * i + 1];
    x[2 * i] = a * c[i] - b * s[i];
    x[2 * i + 1] = a * s[i] + b * c[i];
  }
}

}  // namespace
}  // namespace kvern::gpu::cpu
