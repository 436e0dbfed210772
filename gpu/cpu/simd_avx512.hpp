#pragma once

// The sixteen lanes of simd_scalar.hpp in one AVX-512 register.

#include <immintrin.h>

#include <cstdint>

namespace kvern::gpu::cpu {
namespace {

struct vf {
  __m512 v;
};
struct vi {
  __m512i v;
};

constexpr int attention_rows = 8;
constexpr int dot_side = 4;  // rows and outputs whose sums stay in registers

inline vf load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void store(float* p, vf a) { _mm512_storeu_ps(p, a.v); }
inline vf broadcast(float x) { return {_mm512_set1_ps(x)}; }
inline vi broadcast(std::int32_t x) { return {_mm512_set1_epi32(x)}; }
inline vf add(vf a, vf b) { return {_mm512_add_ps(a.v, b.v)}; }
inline vf sub(vf a, vf b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline vf mul(vf a, vf b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline vf div(vf a, vf b) { return {_mm512_div_ps(a.v, b.v)}; }
inline vf fma(vf a, vf b, vf c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline vf max(vf a, vf b) { return {_mm512_max_ps(a.v, b.v)}; }
inline vf min(vf a, vf b) { return {_mm512_min_ps(a.v, b.v)}; }
inline vf first_lanes(int n, vf a, vf b) {
  const auto mask = static_cast<__mmask16>(n >= 16 ? 0xffff : (1 << (n < 0 ? 0 : n)) - 1);
  return {_mm512_mask_blend_ps(mask, b.v, a.v)};
}
inline vf zero_below(vf x, vf bound, vf a) {
  return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.v, bound.v, _CMP_NLT_UQ), a.v)};
}
inline vf select_below(vf x, vf bound, vf a, vf b) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(x.v, bound.v, _CMP_LT_OQ), b.v, a.v)};
}
inline vi where_nan(vf x, vi a, vi b) {
  return {_mm512_mask_blend_epi32(_mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q), b.v, a.v)};
}
inline vi bits(vf a) { return {_mm512_castps_si512(a.v)}; }
inline vf from_bits(vi a) { return {_mm512_castsi512_ps(a.v)}; }
inline vi add(vi a, vi b) { return {_mm512_add_epi32(a.v, b.v)}; }
inline vi sub(vi a, vi b) { return {_mm512_sub_epi32(a.v, b.v)}; }
inline vi bit_and(vi a, vi b) { return {_mm512_and_si512(a.v, b.v)}; }
inline vi bit_or(vi a, vi b) { return {_mm512_or_si512(a.v, b.v)}; }
inline vi max(vi a, vi b) { return {_mm512_max_epi32(a.v, b.v)}; }
template <int N>
inline vi shift_left(vi a) {
  return {_mm512_slli_epi32(a.v, N)};
}
template <int N>
inline vi shift_right(vi a) {
  return {_mm512_srai_epi32(a.v, N)};
}
inline vf to_float(vi a) { return {_mm512_cvtepi32_ps(a.v)}; }
inline void store_bytes(std::int8_t* p, vi a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v));
}
inline void store_words(std::uint16_t* p, vi a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(a.v));
}
inline vf load_int8(const std::int8_t* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
}
inline vf load_half(const std::uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
inline void store_half(std::uint16_t* p, vf a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
}
inline vf load_bf16(const std::uint16_t* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}

inline __m256 upper(__m512 a) { return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a), 1)); }
inline float sum(vf a) {
  const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a.v), upper(a.v));
  __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_shuffle_ps(q, q, 1)));
}
/// The sums of four vectors, each in the order of sum().
inline void sum_four(vf a, vf b, vf c, vf d, float* out) {
  const __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(a.v, b.v, 0x44), _mm512_shuffle_f32x4(a.v, b.v, 0xee));
  const __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(c.v, d.v, 0x44), _mm512_shuffle_f32x4(c.v, d.v, 0xee));
  __m512 q = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
  q = _mm512_add_ps(q, _mm512_shuffle_ps(q, q, 0x4e));
  q = _mm512_add_ps(q, _mm512_shuffle_ps(q, q, 0xb1));
  _mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, q)));
}
inline float largest(vf a) {
  const __m256 h = _mm256_max_ps(_mm512_castps512_ps256(a.v), upper(a.v));
  __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(q, _mm_shuffle_ps(q, q, 1)));
}
inline std::int32_t sum(vi a) { return _mm512_reduce_add_epi32(a.v); }
inline std::int32_t largest(vi a) { return _mm512_reduce_max_epi32(a.v); }

/// Transposes 16 x 16 floats whose rows are r[0..15] and writes column d to out + 32 d.
inline void transpose(__m512* r, float* out) {
  __m512 t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    const __m512d a = _mm512_castps_pd(t[i]), b = _mm512_castps_pd(t[i + 1]);
    const __m512d c = _mm512_castps_pd(t[i + 2]), d = _mm512_castps_pd(t[i + 3]);
    r[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
    r[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
    r[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
    r[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    _mm512_storeu_ps(out + 32 * i, _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88));
    _mm512_storeu_ps(out + 32 * (i + 4), _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88));
    _mm512_storeu_ps(out + 32 * (i + 8), _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd));
    _mm512_storeu_ps(out + 32 * (i + 12), _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd));
  }
}
template <class T, class F>
inline void transpose(const T* const* lines, float* out, F widen) {
  __m512 r[16];
  for (int j = 0; j < 16; ++j) r[j] = widen(lines[j]).v;
  transpose(r, out);
}
/// Four bytes of a line travel together: rows of four, transposed within the quarters of a register, leave lane j with
/// four bytes of line j.
inline void transpose_int8(const std::int8_t* const* lines, float* out) {
  const auto quarter = [&](int j) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(lines[j])); };
  __m512i r[4];
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_castsi128_si512(quarter(i));
    r[i] = _mm512_inserti32x4(r[i], quarter(i + 4), 1);
    r[i] = _mm512_inserti32x4(r[i], quarter(i + 8), 2);
    r[i] = _mm512_inserti32x4(r[i], quarter(i + 12), 3);
  }
  const __m512i a = _mm512_unpacklo_epi32(r[0], r[1]), b = _mm512_unpackhi_epi32(r[0], r[1]);
  const __m512i c = _mm512_unpacklo_epi32(r[2], r[3]), d = _mm512_unpackhi_epi32(r[2], r[3]);
  const __m512i four[4] = {_mm512_unpacklo_epi64(a, c), _mm512_unpackhi_epi64(a, c), _mm512_unpacklo_epi64(b, d),
                           _mm512_unpackhi_epi64(b, d)};
  for (int i = 0; i < 4; ++i) {
    float* const to = out + 32 * 4 * i;
    const auto put = [&](int n, __m512i high) {
      _mm512_storeu_ps(to + 32 * n, _mm512_cvtepi32_ps(_mm512_srai_epi32(high, 24)));
    };
    put(0, _mm512_slli_epi32(four[i], 24));
    put(1, _mm512_slli_epi32(four[i], 16));
    put(2, _mm512_slli_epi32(four[i], 8));
    put(3, four[i]);
  }
}
/// A quarter of a register takes eight words of a line, its lines being four of every eight; within quarters words,
/// then pairs of neighbouring lines are brought side by side, then their fours.
inline void transpose_words(const std::uint16_t* const* lines, std::int64_t d, std::uint16_t* out) {
  const auto quarter = [&](int j) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(lines[j] + d)); };
  __m512i four[2][4];
  for (int h = 0; h < 2; ++h) {
    __m512i r[4];
    for (int i = 0; i < 4; ++i) {
      const int j = 4 * h + i;
      r[i] = _mm512_castsi128_si512(quarter(j));
      r[i] = _mm512_inserti32x4(r[i], quarter(j + 8), 1);
      r[i] = _mm512_inserti32x4(r[i], quarter(j + 16), 2);
      r[i] = _mm512_inserti32x4(r[i], quarter(j + 24), 3);
    }
    const __m512i a = _mm512_unpacklo_epi16(r[0], r[1]), b = _mm512_unpackhi_epi16(r[0], r[1]);
    const __m512i c = _mm512_unpacklo_epi16(r[2], r[3]), e = _mm512_unpackhi_epi16(r[2], r[3]);
    four[h][0] = _mm512_unpacklo_epi32(a, c);
    four[h][1] = _mm512_unpackhi_epi32(a, c);
    four[h][2] = _mm512_unpacklo_epi32(b, e);
    four[h][3] = _mm512_unpackhi_epi32(b, e);
  }
  for (int i = 0; i < 4; ++i) {
    _mm512_storeu_si512(out + 64 * i, _mm512_unpacklo_epi64(four[0][i], four[1][i]));
    _mm512_storeu_si512(out + 64 * i + 32, _mm512_unpackhi_epi64(four[0][i], four[1][i]));
  }
}

}  // namespace
}  // namespace kvern::gpu::cpu
