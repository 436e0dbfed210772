#pragma once

// Products of packed weights with AVX-512 and VNNI. After simd_avx512.hpp and kernels_rows.hpp.

#include "gpu/cpu/kernels.hpp"

namespace kvern::gpu::cpu {
namespace {

template <packing P>
constexpr packing_form form = packing_forms[static_cast<int>(P)];

/// How often a block's integers are scaled: for each half, or once.
template <packing P>
constexpr int parts = form<P>.halves ? 2 : 1;

inline __m512i four(const std::int8_t* x) {
  std::int32_t quad;
  __builtin_memcpy(&quad, x, sizeof quad);
  return _mm512_set1_epi32(quad);
}

inline __m512 halves(const std::uint8_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}

inline __m512 signed_bytes(const std::uint8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}

/// x shifted to the left by `n` (to the right if negative): the bits of `keep` of each byte, beside those of `low`.
inline __m512i with_upper(__m512i low, __m512i x, int n, int keep) {
  const __m512i moved =
      n >= 0 ? _mm512_slli_epi16(x, static_cast<unsigned>(n)) : _mm512_srli_epi16(x, static_cast<unsigned>(-n));
  return _mm512_ternarylogic_epi32(low, moved, _mm512_set1_epi8(static_cast<char>(keep)),
                                   0xf8);  // low | (moved & keep)
}

/// Piece t of a block, unsigned bytes. Called with constants in unrolled loops; pieces 4 apart share a load.
template <packing P>
inline __m512i piece(const std::uint8_t* quants, int t) {
  if constexpr (form<P>.bits == 8) return _mm512_loadu_si512(quants + 64 * t);
  const __m512i both = _mm512_loadu_si512(quants + 64 * (t % 4));
  const __m512i low = _mm512_and_si512(t < 4 ? both : _mm512_srli_epi16(both, 4), _mm512_set1_epi8(15));
  if constexpr (form<P>.bits == 5) return with_upper(low, _mm512_loadu_si512(quants + 256), 4 - t, 16);
  if constexpr (form<P>.bits == 6)
    return with_upper(low, _mm512_loadu_si512(quants + 256 + 64 * (t / 4)), 4 - t % 4 * 2, 48);
  return low;
}

/// Of a strip's block.
struct factors {
  __m512 scale[2], minimum;
};
template <packing P>
inline factors factors_at(const std::uint8_t* scales, const std::uint8_t* super) {
  factors f;
  f.scale[1] = f.minimum = _mm512_setzero_ps();
  if constexpr (form<P>.super_blocks) {
    f.scale[0] = _mm512_mul_ps(halves(super), signed_bytes(scales));
    if constexpr (form<P>.halves) f.scale[1] = _mm512_mul_ps(halves(super), signed_bytes(scales + 16));
    if constexpr (form<P>.minima) f.minimum = _mm512_mul_ps(halves(super + 32), signed_bytes(scales + 16));
  } else {
    f.scale[0] = halves(scales);
    if constexpr (form<P>.minima) f.minimum = halves(scales + 32);
  }
  return f;
}

/// Adds the integers s of part `part` of a block to the sums: scale * s and, after the last, minimum * sum of
/// activations.
template <packing P>
inline __m512 scaled(__m512 acc, __m512i s, int part, const factors& f, const tile_input& x, std::int64_t at) {
  if constexpr (form<P>.offset > 0) {
    constexpr int offset_shift = form<P>.bits - 1;
    static_assert(form<P>.offset == 1 << offset_shift);
    const std::int32_t sum = parts<P> == 1 ? x.sums[at] : part == 0 ? x.first_sums[at] : x.sums[at] - x.first_sums[at];
    s = _mm512_sub_epi32(s, _mm512_slli_epi32(_mm512_set1_epi32(sum), offset_shift));
  }
  acc = _mm512_fmadd_ps(_mm512_mul_ps(f.scale[part], _mm512_set1_ps(x.scales[at])), _mm512_cvtepi32_ps(s), acc);
  if constexpr (form<P>.minima) acc = _mm512_fmadd_ps(f.minimum, _mm512_set1_ps(x.scaled_sums[at]), acc);
  return acc;
}

template <packing P>
inline void fetch_block(const std::uint8_t* quants) {
  constexpr int lines = form<P>.bits + (form<P>.minima && !form<P>.super_blocks ? 1 : 0);
#pragma GCC unroll 8
  for (int i = 0; i < lines; ++i) _mm_prefetch(reinterpret_cast<const char*>(quants + 64 * i), _MM_HINT_T0);
}

/// Rows [first, first + S) of a tile of R, G strips. A broadcast of activations serves all strips, a piece of weights
/// all rows and both planes.
///
/// Integer bounds: see kernels_packed_scalar.hpp. vpdpbusd does not saturate.
template <packing P, int R, int S, int G, bool Fine>
void rows_avx512(const tile_args& a, int first_row) {
  constexpr int planes = Fine ? 2 : 1;
  alignas(64) float sums[G][S][16] = {};
  const std::int8_t* x = a.x.quants + first_row * 4;
  const std::uint8_t* quants = a.strip;
  const std::uint8_t* scales = a.strip + a.layout.scales;
  for (std::int64_t b = 0; b < a.blocks; ++b) {
    if (a.fetch && first_row == 0) {
#pragma GCC unroll 2
      for (int g = 0; g < G; ++g) fetch_block<P>(quants + (g + G) * a.layout.bytes);
    }
    const std::uint8_t* const super = a.strip + a.layout.factors + b / super_block * a.layout.factor_step;
#pragma GCC unroll 2
    for (int part = 0; part < parts<P>; ++part) {
      __m512i s[planes][G][S];
#pragma GCC unroll 2
      for (int plane = 0; plane < planes; ++plane) {
#pragma GCC unroll 2
        for (int g = 0; g < G; ++g) {
#pragma GCC unroll 8
          for (int r = 0; r < S; ++r) s[plane][g][r] = _mm512_setzero_si512();
        }
      }
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
#pragma GCC unroll 2
        for (int half = part; half < part + 3 - parts<P>; ++half) {
          __m512i w[G];
#pragma GCC unroll 2
          for (int g = 0; g < G; ++g) w[g] = piece<P>(quants + g * a.layout.bytes, j + 4 * half);
#pragma GCC unroll 2
          for (int plane = 0; plane < planes; ++plane) {
#pragma GCC unroll 8
            for (int r = 0; r < S; ++r) {
              const __m512i at = four(x + ((8 * plane + j + 4 * half) * R + r) * 4);
#pragma GCC unroll 2
              for (int g = 0; g < G; ++g) s[plane][g][r] = _mm512_dpbusd_epi32(s[plane][g][r], w[g], at);
            }
          }
        }
      }
#pragma GCC unroll 2
      for (int g = 0; g < G; ++g) {
        const factors f = factors_at<P>(scales + g * a.layout.bytes, super + g * a.layout.bytes);
#pragma GCC unroll 8
        for (int r = 0; r < S; ++r) {
          __m512i all = s[0][g][r];
          if constexpr (Fine) all = _mm512_add_epi32(_mm512_slli_epi32(all, 7), s[1][g][r]);
          float* const sum = sums[g][r];
          _mm512_store_ps(sum, scaled<P>(_mm512_load_ps(sum), all, part, f, a.x, b * R + first_row + r));
        }
      }
      // The sums stay in memory: with them in registers the integers, which matter more, would be spilled.
      asm volatile("" ::"r"(&sums[0][0][0]) : "memory");
    }
    x += planes * 8 * R * 4;
    quants += a.layout.quant_step;
    scales += a.layout.scale_step;
  }
  for (int g = 0; g < G; ++g) {
    const auto mask = static_cast<__mmask16>(g + 1 < G ? 0xffff : (1U << a.outputs) - 1);
    for (int r = 0; r < S; ++r) {
      _mm512_mask_storeu_ps(a.out + (first_row + r) * a.out_stride + g * strip_rows, mask, _mm512_load_ps(sums[g][r]));
    }
  }
}

template <packing P, int R, int G, bool Fine>
void tile_rows_avx512(const tile_args& a) {
  constexpr int at_once = Fine ? 4 : R;
  for (int first = 0; first < R; first += at_once) rows_avx512<P, R, at_once, G, Fine>(a, first);
}

/// One or two rows, where memory is the limit: the coming blocks are asked for before the prefetcher crosses into their
/// page, and several chains hide the latency of vpdpbusd.
template <packing P, int R, bool Fine>
void stream_avx512(const tile_args& a) {
  constexpr int pieces = Fine ? 16 : 8;
  constexpr int ahead = 4096;
  __m512 acc[R];
#pragma GCC unroll 2
  for (int r = 0; r < R; ++r) acc[r] = _mm512_setzero_ps();
  const std::int8_t* x = a.x.quants;
  const std::uint8_t* quants = a.strip;
  const std::uint8_t* scales = a.strip + a.layout.scales;
  for (std::int64_t b = 0; b < a.blocks; ++b) {
    fetch_block<P>(quants + ahead);
    if (form<P>.super_blocks || !form<P>.minima)
      _mm_prefetch(reinterpret_cast<const char*>(scales + a.layout.bytes), _MM_HINT_T0);
    __m512i s[R][2][2];  // [row][half][plane]
#pragma GCC unroll 2
    for (int r = 0; r < R; ++r) s[r][0][0] = s[r][0][1] = s[r][1][0] = s[r][1][1] = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        const __m512i w = piece<P>(quants, j + 4 * half);
#pragma GCC unroll 2
        for (int r = 0; r < R; ++r) {
          s[r][half][0] = _mm512_dpbusd_epi32(s[r][half][0], w, four(x + ((j + 4 * half) * R + r) * 4));
          if constexpr (Fine)
            s[r][half][1] = _mm512_dpbusd_epi32(s[r][half][1], w, four(x + ((j + 4 * half + 8) * R + r) * 4));
        }
      }
    }
    const factors f = factors_at<P>(scales, a.strip + a.layout.factors + b / super_block * a.layout.factor_step);
#pragma GCC unroll 2
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half)
        if constexpr (Fine) s[r][half][0] = _mm512_add_epi32(_mm512_slli_epi32(s[r][half][0], 7), s[r][half][1]);
      if constexpr (parts<P> == 1) {
        acc[r] = scaled<P>(acc[r], _mm512_add_epi32(s[r][0][0], s[r][1][0]), 0, f, a.x, b * R + r);
      } else {
        acc[r] = scaled<P>(acc[r], s[r][0][0], 0, f, a.x, b * R + r);
        acc[r] = scaled<P>(acc[r], s[r][1][0], 1, f, a.x, b * R + r);
      }
    }
    x += pieces * R * 4;
    quants += a.layout.quant_step;
    scales += a.layout.scale_step;
  }
  const auto mask = static_cast<__mmask16>((1U << a.outputs) - 1);
#pragma GCC unroll 2
  for (int r = 0; r < R; ++r) _mm512_mask_storeu_ps(a.out + r * a.out_stride, mask, acc[r]);
}

template <packing P, bool Fine>
void tile_of(int rows, const tile_args& a) {
  const bool pair = a.strips == 2;
  switch (rows) {
    case 8:
      return pair ? tile_rows_avx512<P, 8, 2, Fine>(a) : tile_rows_avx512<P, 8, 1, Fine>(a);
    case 4:
      return pair ? tile_rows_avx512<P, 4, 2, Fine>(a) : tile_rows_avx512<P, 4, 1, Fine>(a);
    case 2:
      return each_strip(a, stream_avx512<P, 2, Fine>);
    default:
      return each_strip(a, stream_avx512<P, 1, Fine>);
  }
}

}  // namespace
}  // namespace kvern::gpu::cpu
