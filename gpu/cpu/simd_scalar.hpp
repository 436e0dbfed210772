#pragma once

// Sixteen lanes in plain C++: the reference that the vector versions equal to the bit. One such header is included by
// one kernels_*.cpp only; everything in it has internal linkage, because those files differ in instruction set.

#include <cmath>
#include <cstdint>
#include <cstring>

namespace kvern::gpu::cpu {
namespace {

struct vf {
  float v[16];
};
struct vi {
  std::int32_t v[16];
};

constexpr int attention_rows = 2;
constexpr int dot_side = 2;

template <class T, class F>
inline T each(F f) {
  T r;
  for (int i = 0; i < 16; ++i) r.v[i] = f(i);
  return r;
}

inline vf load(const float* p) {
  return each<vf>([&](int i) { return p[i]; });
}
inline void store(float* p, const vf& a) { std::memcpy(p, a.v, sizeof a.v); }
inline vf broadcast(float x) {
  return each<vf>([&](int) { return x; });
}
inline vi broadcast(std::int32_t x) {
  return each<vi>([&](int) { return x; });
}
inline vf add(const vf& a, const vf& b) {
  return each<vf>([&](int i) { return a.v[i] + b.v[i]; });
}
inline vf sub(const vf& a, const vf& b) {
  return each<vf>([&](int i) { return a.v[i] - b.v[i]; });
}
inline vf mul(const vf& a, const vf& b) {
  return each<vf>([&](int i) { return a.v[i] * b.v[i]; });
}
inline vf div(const vf& a, const vf& b) {
  return each<vf>([&](int i) { return a.v[i] / b.v[i]; });
}
inline vf fma(const vf& a, const vf& b, const vf& c) {
  return each<vf>([&](int i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
}
/// b where either is NaN.
inline vf max(const vf& a, const vf& b) {
  return each<vf>([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline vf min(const vf& a, const vf& b) {
  return each<vf>([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
/// `a` in the first n lanes, `b` in the others.
inline vf first_lanes(int n, const vf& a, const vf& b) {
  return each<vf>([&](int i) { return i < n ? a.v[i] : b.v[i]; });
}
/// 0 where x < bound, else a.
inline vf zero_below(const vf& x, const vf& bound, const vf& a) {
  return each<vf>([&](int i) { return x.v[i] < bound.v[i] ? 0.0F : a.v[i]; });
}
/// a where x < bound, else b.
inline vf select_below(const vf& x, const vf& bound, const vf& a, const vf& b) {
  return each<vf>([&](int i) { return x.v[i] < bound.v[i] ? a.v[i] : b.v[i]; });
}
/// a where x is NaN, else b.
inline vi where_nan(const vf& x, const vi& a, const vi& b) {
  return each<vi>([&](int i) { return std::isnan(x.v[i]) ? a.v[i] : b.v[i]; });
}
inline vi bits(const vf& a) {
  vi r;
  std::memcpy(r.v, a.v, sizeof r.v);
  return r;
}
inline vf from_bits(const vi& a) {
  vf r;
  std::memcpy(r.v, a.v, sizeof r.v);
  return r;
}
inline vi wrap(std::uint32_t (*f)(std::uint32_t, std::uint32_t), const vi& a, const vi& b) {
  return each<vi>([&](int i) {
    return static_cast<std::int32_t>(f(static_cast<std::uint32_t>(a.v[i]), static_cast<std::uint32_t>(b.v[i])));
  });
}
inline vi add(const vi& a, const vi& b) {
  return wrap([](std::uint32_t x, std::uint32_t y) { return x + y; }, a, b);
}
inline vi sub(const vi& a, const vi& b) {
  return wrap([](std::uint32_t x, std::uint32_t y) { return x - y; }, a, b);
}
inline vi bit_and(const vi& a, const vi& b) {
  return wrap([](std::uint32_t x, std::uint32_t y) { return x & y; }, a, b);
}
inline vi bit_or(const vi& a, const vi& b) {
  return wrap([](std::uint32_t x, std::uint32_t y) { return x | y; }, a, b);
}
inline vi max(const vi& a, const vi& b) {
  return each<vi>([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
template <int N>
inline vi shift_left(const vi& a) {
  return each<vi>([&](int i) { return static_cast<std::int32_t>(static_cast<std::uint32_t>(a.v[i]) << N); });
}
template <int N>
inline vi shift_right(const vi& a) {  // arithmetic
  return each<vi>([&](int i) { return a.v[i] >> N; });
}
inline vf to_float(const vi& a) {
  return each<vf>([&](int i) { return static_cast<float>(a.v[i]); });
}
/// The low byte of each lane.
inline void store_bytes(std::int8_t* p, const vi& a) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<std::int8_t>(static_cast<std::uint8_t>(a.v[i] & 255));
}

/// The low half of each lane.
inline void store_words(std::uint16_t* p, const vi& a) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<std::uint16_t>(a.v[i] & 0xffff);
}
inline vf load_int8(const std::int8_t* p) {
  return each<vf>([&](int i) { return static_cast<float>(p[i]); });
}

inline float half_to_float(std::uint16_t h) {
  const std::uint32_t sign = (h & 0x8000U) << 16;
  const std::uint32_t exponent = (h >> 10) & 31U;
  const std::uint32_t mantissa = h & 1023U;
  std::uint32_t out;
  if (exponent == 31) {
    out = sign | 0x7f800000U | (mantissa << 13) | (mantissa != 0 ? 0x400000U : 0U);
  } else if (exponent != 0) {
    out = sign | ((exponent + 112) << 23) | (mantissa << 13);
  } else {
    const float small = static_cast<float>(mantissa) * 0x1p-24F;
    std::memcpy(&out, &small, 4);
    out |= sign;
  }
  float f;
  std::memcpy(&f, &out, 4);
  return f;
}
inline std::uint16_t float_to_half(float f) {
  std::uint32_t x;
  std::memcpy(&x, &f, 4);
  const std::uint32_t sign = (x >> 16) & 0x8000U;
  x &= 0x7fffffffU;
  if (x > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U | ((x >> 13) & 0x3ffU));
  if (x >= 0x47800000U) return static_cast<std::uint16_t>(sign | 0x7c00U);
  if (x < 0x38800000U) {  // subnormal: the addition rounds to a multiple of 2^-24
    float small;
    std::memcpy(&small, &x, 4);
    small += 0.5F;
    std::memcpy(&x, &small, 4);
    return static_cast<std::uint16_t>(sign | (x - 0x3f000000U));
  }
  x += 0xfffU + ((x >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | ((x - 0x38000000U) >> 13));
}
inline vf load_half(const std::uint16_t* p) {
  return each<vf>([&](int i) { return half_to_float(p[i]); });
}
inline void store_half(std::uint16_t* p, const vf& a) {
  for (int i = 0; i < 16; ++i) p[i] = float_to_half(a.v[i]);
}
inline vf load_bf16(const std::uint16_t* p) {
  return from_bits(each<vi>([&](int i) { return static_cast<std::int32_t>(static_cast<std::uint32_t>(p[i]) << 16); }));
}

/// Lane i with lane i + 8, then 4, 2, 1.
template <class T, class F>
inline auto fold(const T& a, F f) {
  T t = a;
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) t.v[i] = f(t.v[i], t.v[i + half]);
  }
  return t.v[0];
}
inline float sum(const vf& a) {
  return fold(a, [](float x, float y) { return x + y; });
}
inline void sum_four(const vf& a, const vf& b, const vf& c, const vf& d, float* out) {
  out[0] = sum(a);
  out[1] = sum(b);
  out[2] = sum(c);
  out[3] = sum(d);
}
inline float largest(const vf& a) {
  return fold(a, [](float x, float y) { return x > y ? x : y; });
}
inline std::int32_t sum(const vi& a) {
  return fold(a, [](std::int32_t x, std::int32_t y) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(x) + static_cast<std::uint32_t>(y));
  });
}
inline std::int32_t largest(const vi& a) {
  return fold(a, [](std::int32_t x, std::int32_t y) { return x > y ? x : y; });
}

/// out[d * 32 + j] = lines[j][d] for d in [0, 16).
template <class T, class F>
inline void transpose(const T* const* lines, float* out, F widen) {
  for (int j = 0; j < 16; ++j) {
    const vf line = widen(lines[j]);
    for (int d = 0; d < 16; ++d) out[d * 32 + j] = line.v[d];
  }
}
inline void transpose_int8(const std::int8_t* const* lines, float* out) { transpose(lines, out, load_int8); }
/// out[i * 32 + j] = lines[j][d + i] for i in [0, 8) and 32 lines.
inline void transpose_words(const std::uint16_t* const* lines, std::int64_t d, std::uint16_t* out) {
  for (int j = 0; j < 32; ++j)
    for (int i = 0; i < 8; ++i) out[i * 32 + j] = lines[j][d + i];
}

}  // namespace
}  // namespace kvern::gpu::cpu
