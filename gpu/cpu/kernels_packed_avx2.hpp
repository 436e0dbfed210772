#pragma once

// Products of packed weights with AVX2. After simd_avx2.hpp and kernels_rows.hpp.

#include "gpu/cpu/kernels.hpp"

namespace kvern::gpu::cpu {
namespace {

template <packing P>
constexpr packing_form form = packing_forms[static_cast<int>(P)];

inline __m256i four(const std::int8_t* x) {
  std::int32_t quad;
  __builtin_memcpy(&quad, x, sizeof quad);
  return _mm256_set1_epi32(quad);
}

inline __m256 halves(const std::uint8_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

inline __m256 signed_bytes(const std::uint8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}

inline __m256i bytes_at(const std::uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }

/// Byte-wise shift to the left by N (to the right if negative), of which only the bits of `keep` are looked at.
template <int N>
inline __m256i shifted(__m256i x, int keep) {
  const __m256i moved = N >= 0 ? _mm256_slli_epi16(x, N >= 0 ? N : 0) : _mm256_srli_epi16(x, N < 0 ? -N : 0);
  return _mm256_and_si256(moved, _mm256_set1_epi8(static_cast<char>(keep)));
}

/// Piece T of quants of fewer than 8 bits, eight outputs.
template <packing P, int T>
inline __m256i piece(const std::uint8_t* quants) {
  const __m256i low = shifted < T < 4 ? 0 : -4 > (bytes_at(quants + 64 * (T % 4)), 15);
  if constexpr (form<P>.bits == 5) return _mm256_or_si256(low, shifted<4 - T>(bytes_at(quants + 256), 16));
  if constexpr (form<P>.bits == 6)
    return _mm256_or_si256(low, shifted<4 - T % 4 * 2>(bytes_at(quants + 256 + 64 * (T / 4)), 48));
  return low;
}

/// Adds the products of the pieces [T, Last) to s, by pairs that are added up in 16 bits for `depth` pieces and at the
/// end.
///
/// Bounds: a pair of quants of b bits is below 2 * (2^b - 1) * 127, so 8, 4 or 2 of 4, 5 or 6 bits stay below 32768.
template <packing P, int R, int S, int T, int Last>
inline void add_pieces(const std::uint8_t* quants, const std::int8_t* x, __m256i* pairs, __m256i* s) {
  constexpr int depth = form<P>.bits == 4 ? 8 : form<P>.bits == 5 ? 4 : 2;
  const __m256i w = piece<P, T>(quants);
  for (int r = 0; r < S; ++r) {
    const __m256i two = _mm256_maddubs_epi16(w, four(x + (T * R + r) * 4));
    pairs[r] = T % depth == 0 ? two : _mm256_add_epi16(pairs[r], two);
    if (T % depth == depth - 1 || T + 1 == Last)
      s[r] = _mm256_add_epi32(s[r], _mm256_madd_epi16(pairs[r], _mm256_set1_epi16(1)));
  }
  if constexpr (T + 1 < Last) add_pieces<P, R, S, T + 1, Last>(quants, x, pairs, s);
}

/// Products of one plane of S rows with eight outputs over pieces [First, Last), in 32 bits.
///
/// Quants of 8 bits are made signed again and multiplied as |w| * (x with w's sign): 2 * 128 * 127 = 32512, widened at
/// once.
template <packing P, int R, int S, int First, int Last>
inline void plane(const std::uint8_t* quants, const std::int8_t* x, __m256i* s) {
  for (int r = 0; r < S; ++r) s[r] = _mm256_setzero_si256();
  if constexpr (form<P>.bits == 8) {
    for (int t = First; t < Last; ++t) {
      const __m256i w = _mm256_xor_si256(bytes_at(quants + 64 * t), _mm256_set1_epi8(-128));
      const __m256i size = _mm256_abs_epi8(w);
      for (int r = 0; r < S; ++r) {
        const __m256i pairs = _mm256_maddubs_epi16(size, _mm256_sign_epi8(four(x + (t * R + r) * 4), w));
        s[r] = _mm256_add_epi32(s[r], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
      }
    }
  } else {
    __m256i pairs[S];
    add_pieces<P, R, S, First, Last>(quants, x, pairs, s);
  }
}

/// Adds inputs [4 First, 4 Last) of block b to acc: scale * integers.
template <packing P, int R, int S, bool Fine, int First, int Last>
inline void add_inputs(const tile_input& in, std::int64_t b, int first_row, const std::uint8_t* quants, __m256 scale,
                       __m256* acc) {
  constexpr int pieces = Fine ? 16 : 8;
  const std::int8_t* const x = in.quants + (b * pieces * R + first_row) * 4;
  __m256i s[S];
  plane<P, R, S, First, Last>(quants, x, s);
  if constexpr (Fine) {
    __m256i low[S];
    plane<P, R, S, First, Last>(quants, x + 8 * R * 4, low);
    for (int r = 0; r < S; ++r) s[r] = _mm256_add_epi32(_mm256_slli_epi32(s[r], 7), low[r]);
  }
  for (int r = 0; r < S; ++r) {
    const std::int64_t at = b * R + first_row + r;
    if constexpr (form<P>.offset > 0 && form<P>.bits < 8) {
      const std::int32_t sum = Last - First == 8 ? in.sums[at]
                               : First == 0      ? in.first_sums[at]
                                                 : in.sums[at] - in.first_sums[at];
      s[r] = _mm256_sub_epi32(s[r], _mm256_set1_epi32(form<P>.offset * sum));
    }
    acc[r] = _mm256_fmadd_ps(_mm256_mul_ps(scale, _mm256_set1_ps(in.scales[at])), _mm256_cvtepi32_ps(s[r]), acc[r]);
  }
}

/// Rows [first, first + S) of a tile of R, outputs [8 half, 8 half + 8).
template <packing P, int R, int S, bool Fine>
void part_avx2(const tile_args& a, int first, int half) {
  __m256 acc[S];
  for (int r = 0; r < S; ++r) acc[r] = _mm256_setzero_ps();
  for (std::int64_t b = 0; b < a.blocks; ++b) {
    const std::uint8_t* const quants = a.strip + b * a.layout.quant_step + 32 * half;
    const std::uint8_t* const scales = a.strip + a.layout.scales + b * a.layout.scale_step;
    __m256 scale[2] = {}, minimum{};
    if constexpr (form<P>.super_blocks) {
      const std::uint8_t* const factors =
          a.strip + a.layout.factors + b / super_block * a.layout.factor_step + 16 * half;
      scale[0] = _mm256_mul_ps(halves(factors), signed_bytes(scales + 8 * half));
      if constexpr (form<P>.halves) scale[1] = _mm256_mul_ps(halves(factors), signed_bytes(scales + 16 + 8 * half));
      if constexpr (form<P>.minima) minimum = _mm256_mul_ps(halves(factors + 32), signed_bytes(scales + 16 + 8 * half));
    } else {
      scale[0] = halves(scales + 16 * half);
      if constexpr (form<P>.minima) minimum = halves(scales + 32 + 16 * half);
    }
    if constexpr (form<P>.halves) {
      add_inputs<P, R, S, Fine, 0, 4>(a.x, b, first, quants, scale[0], acc);
      add_inputs<P, R, S, Fine, 4, 8>(a.x, b, first, quants, scale[1], acc);
    } else {
      add_inputs<P, R, S, Fine, 0, 8>(a.x, b, first, quants, scale[0], acc);
    }
    if constexpr (form<P>.minima) {
      for (int r = 0; r < S; ++r)
        acc[r] = _mm256_fmadd_ps(minimum, _mm256_set1_ps(a.x.scaled_sums[b * R + first + r]), acc[r]);
    }
  }
  for (int r = 0; r < S; ++r) {
    float* const out = a.out + (first + r) * a.out_stride + 8 * half;
    store_some(out, vf{acc[r], acc[r]}, a.outputs - 8 * half < 8 ? a.outputs - 8 * half : 8);
  }
}

template <packing P, int R, bool Fine>
void tile_avx2(const tile_args& a) {
  constexpr int rows = R < 4 ? R : 4;
  for (int half = 0; half < 2; ++half) {
    for (int first = 0; first < R; first += rows) part_avx2<P, R, rows, Fine>(a, first, half);
  }
}

template <packing P, bool Fine>
void tile_of(int rows, const tile_args& a) {
  switch (rows) {
    case 8:
      return each_strip(a, tile_avx2<P, 8, Fine>);
    case 4:
      return each_strip(a, tile_avx2<P, 4, Fine>);
    case 2:
      return each_strip(a, tile_avx2<P, 2, Fine>);
    default:
      return each_strip(a, tile_avx2<P, 1, Fine>);
  }
}

}  // namespace
}  // namespace kvern::gpu::cpu
