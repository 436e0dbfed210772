// AVX-512 with VNNI. simd_avx512.hpp comes before what is written over its lanes.
#if defined(__x86_64__)

// clang-format off
#include "gpu/cpu/simd_avx512.hpp"
#include "gpu/cpu/kernels_elementwise.hpp"
#include "gpu/cpu/kernels_rows.hpp"
#include "gpu/cpu/kernels_lines.hpp"
#include "gpu/cpu/kernels_attention.hpp"
#include "gpu/cpu/kernels_table.hpp"
// clang-format on

namespace kvern::gpu::cpu {
namespace {

inline __m512i four(const std::int8_t* x) {
  std::int32_t quad;
  __builtin_memcpy(&quad, x, sizeof quad);
  return _mm512_set1_epi32(quad);
}

inline __m512 halves(const std::uint8_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}

/// Pieces 4 apart share bytes: low nibbles of q4 hold the first, high nibbles the second. Unsigned bytes in any case.
template <packing P>
inline void pieces_at(const std::uint8_t* quants, int j, __m512i& first, __m512i& second) {
  if constexpr (P == packing::q8_0) {
    first = _mm512_loadu_si512(quants + 64 * j);
    second = _mm512_loadu_si512(quants + 64 * (j + 4));
  } else {
    const __m512i low = _mm512_set1_epi8(15);
    const __m512i both = _mm512_loadu_si512(quants + 64 * j);
    first = _mm512_and_si512(both, low);
    second = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
  }
}

/// The scales of a strip's block and, for q4_1, its minima.
struct factors {
  __m512 scale, minimum;
};
template <packing P>
inline factors factors_at(const std::uint8_t* p) {
  return {halves(p), P == packing::q4_1 ? halves(p + 32) : _mm512_setzero_ps()};
}

/// Adds a block's integers s to the sums: scale * s and, for q4_1, minimum * sum of activations.
template <packing P>
inline __m512 scaled(__m512 acc, __m512i s, const factors& f, const tile_input& x, std::int64_t at) {
  if constexpr (P != packing::q4_1) {
    constexpr int offset_shift = P == packing::q8_0 ? 7 : 3;
    s = _mm512_sub_epi32(s, _mm512_slli_epi32(_mm512_set1_epi32(x.sums[at]), offset_shift));
  }
  acc = _mm512_fmadd_ps(_mm512_mul_ps(f.scale, _mm512_set1_ps(x.scales[at])), _mm512_cvtepi32_ps(s), acc);
  if constexpr (P == packing::q4_1) acc = _mm512_fmadd_ps(f.minimum, _mm512_set1_ps(x.scaled_sums[at]), acc);
  return acc;
}

template <packing P>
inline void fetch_block(const std::uint8_t* quants) {
  constexpr int lines = P == packing::q8_0 ? 8 : P == packing::q4_1 ? 5 : 4;
#pragma GCC unroll 8
  for (int i = 0; i < lines; ++i) _mm_prefetch(reinterpret_cast<const char*>(quants + 64 * i), _MM_HINT_T0);
}

/// Rows [first, first + S) of a tile of R, G strips. A broadcast of activations serves all strips, a piece of weights
/// all rows and both planes.
///
/// Integer bounds: see kernels_scalar.cpp. vpdpbusd does not saturate.
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
      __m512i w[2][G];
#pragma GCC unroll 2
      for (int g = 0; g < G; ++g) pieces_at<P>(quants + g * a.layout.bytes, j, w[0][g], w[1][g]);
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
#pragma GCC unroll 2
        for (int plane = 0; plane < planes; ++plane) {
#pragma GCC unroll 8
          for (int r = 0; r < S; ++r) {
            const __m512i at = four(x + ((8 * plane + j + 4 * half) * R + r) * 4);
#pragma GCC unroll 2
            for (int g = 0; g < G; ++g) s[plane][g][r] = _mm512_dpbusd_epi32(s[plane][g][r], w[half][g], at);
          }
        }
      }
    }
#pragma GCC unroll 2
    for (int g = 0; g < G; ++g) {
      const factors f = factors_at<P>(scales + g * a.layout.bytes);
#pragma GCC unroll 8
      for (int r = 0; r < S; ++r) {
        __m512i all = s[0][g][r];
        if constexpr (Fine) all = _mm512_add_epi32(_mm512_slli_epi32(all, 7), s[1][g][r]);
        float* const sum = sums[g][r];
        _mm512_store_ps(sum, scaled<P>(_mm512_load_ps(sum), all, f, a.x, b * R + first_row + r));
      }
    }
    // The sums stay in memory: with them in registers the integers, which matter more, would be spilled.
    asm volatile("" ::"r"(&sums[0][0][0]) : "memory");
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
    __m512i s[R][4];
#pragma GCC unroll 2
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) s[r][i] = _mm512_setzero_si512();
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      __m512i first, second;
      pieces_at<P>(quants, j, first, second);
#pragma GCC unroll 2
      for (int r = 0; r < R; ++r) {
        s[r][0] = _mm512_dpbusd_epi32(s[r][0], first, four(x + (j * R + r) * 4));
        s[r][1] = _mm512_dpbusd_epi32(s[r][1], second, four(x + ((j + 4) * R + r) * 4));
        if constexpr (Fine) {
          s[r][2] = _mm512_dpbusd_epi32(s[r][2], first, four(x + ((j + 8) * R + r) * 4));
          s[r][3] = _mm512_dpbusd_epi32(s[r][3], second, four(x + ((j + 12) * R + r) * 4));
        }
      }
    }
    const factors f = factors_at<P>(scales);
#pragma GCC unroll 2
    for (int r = 0; r < R; ++r) {
      __m512i all = _mm512_add_epi32(s[r][0], s[r][1]);
      if constexpr (Fine) all = _mm512_add_epi32(_mm512_slli_epi32(all, 7), _mm512_add_epi32(s[r][2], s[r][3]));
      acc[r] = scaled<P>(acc[r], all, f, a.x, b * R + r);
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

void tile(packing p, int rows, const tile_args& a) {
  switch (p) {
    case packing::q4_0:
      return a.fine ? tile_of<packing::q4_0, true>(rows, a) : tile_of<packing::q4_0, false>(rows, a);
    case packing::q4_1:
      return a.fine ? tile_of<packing::q4_1, true>(rows, a) : tile_of<packing::q4_1, false>(rows, a);
    case packing::q8_0:
      return a.fine ? tile_of<packing::q8_0, true>(rows, a) : tile_of<packing::q8_0, false>(rows, a);
  }
}

constexpr kernels table = make_table(tile);

}  // namespace

const kernels& avx512_kernels() { return table; }

}  // namespace kvern::gpu::cpu

#endif
