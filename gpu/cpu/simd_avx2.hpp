#pragma once

// The sixteen lanes of simd_scalar.hpp in two AVX2 registers.

#include <immintrin.h>

#include <cstdint>

namespace kvern::gpu::cpu {
namespace {

struct vf {
  __m256 a, b;  // lanes 0 to 7, 8 to 15
};
struct vi {
  __m256i a, b;
};

constexpr int attention_rows = 2;
constexpr int dot_side = 2;  // rows and outputs whose sums stay in registers

inline vf load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, vf x) {
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
}
inline vf broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline vi broadcast(std::int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
inline vf add(vf x, vf y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
inline vf sub(vf x, vf y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
inline vf mul(vf x, vf y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
inline vf div(vf x, vf y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
inline vf fma(vf x, vf y, vf z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
inline vf max(vf x, vf y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
inline vf min(vf x, vf y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
inline vf first_lanes(int n, vf x, vf y) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i ma = _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lanes);
  const __m256i mb = _mm256_cmpgt_epi32(_mm256_set1_epi32(n - 8), lanes);
  return {_mm256_blendv_ps(y.a, x.a, _mm256_castsi256_ps(ma)), _mm256_blendv_ps(y.b, x.b, _mm256_castsi256_ps(mb))};
}
inline vf zero_below(vf x, vf bound, vf r) {
  return {_mm256_and_ps(_mm256_cmp_ps(x.a, bound.a, _CMP_NLT_UQ), r.a),
          _mm256_and_ps(_mm256_cmp_ps(x.b, bound.b, _CMP_NLT_UQ), r.b)};
}
inline vf select_below(vf x, vf bound, vf r, vf s) {
  return {_mm256_blendv_ps(s.a, r.a, _mm256_cmp_ps(x.a, bound.a, _CMP_LT_OQ)),
          _mm256_blendv_ps(s.b, r.b, _mm256_cmp_ps(x.b, bound.b, _CMP_LT_OQ))};
}
inline vi where_nan(vf x, vi r, vi s) {
  const __m256i ma = _mm256_castps_si256(_mm256_cmp_ps(x.a, x.a, _CMP_UNORD_Q));
  const __m256i mb = _mm256_castps_si256(_mm256_cmp_ps(x.b, x.b, _CMP_UNORD_Q));
  return {_mm256_blendv_epi8(s.a, r.a, ma), _mm256_blendv_epi8(s.b, r.b, mb)};
}
inline vi bits(vf x) { return {_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)}; }
inline vf from_bits(vi x) { return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }
inline vi add(vi x, vi y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
inline vi sub(vi x, vi y) { return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)}; }
inline vi bit_and(vi x, vi y) { return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)}; }
inline vi bit_or(vi x, vi y) { return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)}; }
inline vi max(vi x, vi y) { return {_mm256_max_epi32(x.a, y.a), _mm256_max_epi32(x.b, y.b)}; }
template <int N>
inline vi shift_left(vi x) {
  return {_mm256_slli_epi32(x.a, N), _mm256_slli_epi32(x.b, N)};
}
template <int N>
inline vi shift_right(vi x) {
  return {_mm256_srai_epi32(x.a, N), _mm256_srai_epi32(x.b, N)};
}
inline vf to_float(vi x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
inline void store_bytes(std::int8_t* p, vi x) {
  const vi low = bit_and(x, broadcast(std::int32_t{255}));
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(low.a, low.b), 0xd8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}
inline void store_words(std::uint16_t* p, vi x) {
  const vi low = bit_and(x, broadcast(std::int32_t{0xffff}));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(_mm256_packus_epi32(low.a, low.b), 0xd8));
}
inline __m256 widen_int8(const std::int8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
inline vf load_int8(const std::int8_t* p) { return {widen_int8(p), widen_int8(p + 8)}; }
inline vf load_half(const std::uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
inline void store_half(std::uint16_t* p, vf x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
}
inline __m256 widen_bf16(const std::uint16_t* p) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
inline vf load_bf16(const std::uint16_t* p) { return {widen_bf16(p), widen_bf16(p + 8)}; }

inline float sum(vf x) {
  const __m256 h = _mm256_add_ps(x.a, x.b);
  __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_shuffle_ps(q, q, 1)));
}
inline void sum_four(vf a, vf b, vf c, vf d, float* out) {
  out[0] = sum(a);
  out[1] = sum(b);
  out[2] = sum(c);
  out[3] = sum(d);
}
inline float largest(vf x) {
  const __m256 h = _mm256_max_ps(x.a, x.b);
  __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(q, _mm_shuffle_ps(q, q, 1)));
}
inline std::int32_t sum(vi x) {
  const __m256i h = _mm256_add_epi32(x.a, x.b);
  __m128i q = _mm_add_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
  q = _mm_add_epi32(q, _mm_shuffle_epi32(q, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(q, _mm_shuffle_epi32(q, 0xb1)));
}
inline std::int32_t largest(vi x) {
  const __m256i h = _mm256_max_epi32(x.a, x.b);
  __m128i q = _mm_max_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
  q = _mm_max_epi32(q, _mm_shuffle_epi32(q, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(q, _mm_shuffle_epi32(q, 0xb1)));
}

/// Transposes 8 x 8 floats whose rows are r[0..7] and writes column d to out + 32 d.
inline void transpose(__m256* r, float* out) {
  __m256 t[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(out + 32 * i, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(out + 32 * (i + 4), _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}
template <class T, class F>
inline void transpose(const T* const* lines, float* out, F widen) {
  for (int j = 0; j < 16; j += 8) {
    __m256 a[8], b[8];
    for (int i = 0; i < 8; ++i) {
      const vf line = widen(lines[j + i]);
      a[i] = line.a;
      b[i] = line.b;
    }
    transpose(a, out + j);
    transpose(b, out + 8 * 32 + j);
  }
}
/// Four bytes of a line travel together: rows of four, transposed within the halves of a register, leave lane j with
/// four bytes of line j.
inline void transpose_int8(const std::int8_t* const* lines, float* out) {
  const auto half = [&](int j) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(lines[j])); };
  for (int j = 0; j < 16; j += 8) {
    __m256i r[4];
    for (int i = 0; i < 4; ++i) r[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(half(j + i)), half(j + i + 4), 1);
    const __m256i a = _mm256_unpacklo_epi32(r[0], r[1]), b = _mm256_unpackhi_epi32(r[0], r[1]);
    const __m256i c = _mm256_unpacklo_epi32(r[2], r[3]), d = _mm256_unpackhi_epi32(r[2], r[3]);
    const __m256i four[4] = {_mm256_unpacklo_epi64(a, c), _mm256_unpackhi_epi64(a, c), _mm256_unpacklo_epi64(b, d),
                             _mm256_unpackhi_epi64(b, d)};
    for (int i = 0; i < 4; ++i) {
      float* const to = out + 32 * 4 * i + j;
      const auto put = [&](int n, __m256i high) {
        _mm256_storeu_ps(to + 32 * n, _mm256_cvtepi32_ps(_mm256_srai_epi32(high, 24)));
      };
      put(0, _mm256_slli_epi32(four[i], 24));
      put(1, _mm256_slli_epi32(four[i], 16));
      put(2, _mm256_slli_epi32(four[i], 8));
      put(3, four[i]);
    }
  }
}
/// Eight lines at a time: words, then pairs, then fours of neighbouring lines are brought side by side.
inline void transpose_words(const std::uint16_t* const* lines, std::int64_t d, std::uint16_t* out) {
  for (int j = 0; j < 32; j += 8) {
    __m128i r[8], t[8];
    for (int i = 0; i < 8; ++i) r[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(lines[j + i] + d));
    for (int i = 0; i < 8; i += 2) {
      t[i] = _mm_unpacklo_epi16(r[i], r[i + 1]);
      t[i + 1] = _mm_unpackhi_epi16(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
      for (int h = 0; h < 2; ++h) {
        r[i + 2 * h] = _mm_unpacklo_epi32(t[i + h], t[i + h + 2]);
        r[i + 2 * h + 1] = _mm_unpackhi_epi32(t[i + h], t[i + h + 2]);
      }
    }
    for (int i = 0; i < 4; ++i) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 64 * i + j), _mm_unpacklo_epi64(r[i], r[i + 4]));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 64 * i + 32 + j), _mm_unpackhi_epi64(r[i], r[i + 4]));
    }
  }
}

}  // namespace
}  // namespace kvern::gpu::cpu
