#pragma once

// Products of packed weights with AVX-512 and VNNI. After simd_avx512.hpp.

#include "gpu/cpu/kernels_packed_panel.hpp"

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

/// Piece t of a block, unsigned bytes. Called with constants in unrolled loops; pieces 4 apart share a load of nibbles,
/// and those below and from 4 on one of pairs of bits.
template <packing P>
inline __m512i piece(const std::uint8_t* quants, int t) {
  constexpr int bits = form<P>.bits;
  if constexpr (bits == 8) return _mm512_loadu_si512(quants + 64 * t);
  if constexpr (bits < 4) {
    const __m512i pairs = _mm512_loadu_si512(quants + 64 * (t / 4));
    const __m512i low =
        _mm512_and_si512(_mm512_srli_epi16(pairs, static_cast<unsigned>(t % 4 * 2)), _mm512_set1_epi8(3));
    return bits == 3 ? with_upper(low, _mm512_loadu_si512(quants + 128), 2 - t, 4) : low;
  }
  const __m512i both = _mm512_loadu_si512(quants + 64 * (t % 4));
  const __m512i low = _mm512_and_si512(t < 4 ? both : _mm512_srli_epi16(both, 4), _mm512_set1_epi8(15));
  if constexpr (form<P>.codebook) {
    const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(iq4_codebook));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), low);
  }
  if constexpr (bits == 5) return with_upper(low, _mm512_loadu_si512(quants + 256), 4 - t, 16);
  if constexpr (bits == 6) return with_upper(low, _mm512_loadu_si512(quants + 256 + 64 * (t / 4)), 4 - t % 4 * 2, 48);
  return low;
}

/// Of a strip's block, for each of its parts.
struct factors {
  __m512 scale[2], minimum[2];
};
template <packing P>
inline factors factors_at(const std::uint8_t* scales, const std::uint8_t* super) {
  factors f;
  f.scale[1] = f.minimum[0] = f.minimum[1] = _mm512_setzero_ps();
  if constexpr (form<P>.super_blocks && form<P>.halves && form<P>.minima) {
    const __m512 scale = halves(super), minimum = halves(super + 32);
#pragma GCC unroll 2
    for (int part = 0; part < 2; ++part) {
      const __m512i both = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(scales + 16 * part)));
      f.scale[part] = _mm512_mul_ps(scale, _mm512_cvtepi32_ps(_mm512_and_si512(both, _mm512_set1_epi32(15))));
      f.minimum[part] = _mm512_mul_ps(minimum, _mm512_cvtepi32_ps(_mm512_srli_epi32(both, 4)));
    }
  } else if constexpr (form<P>.super_blocks) {
    f.scale[0] = _mm512_mul_ps(halves(super), signed_bytes(scales));
    if constexpr (form<P>.halves) f.scale[1] = _mm512_mul_ps(halves(super), signed_bytes(scales + 16));
    if constexpr (form<P>.minima) f.minimum[0] = _mm512_mul_ps(halves(super + 32), signed_bytes(scales + 16));
  } else {
    f.scale[0] = halves(scales);
    if constexpr (form<P>.minima) f.minimum[0] = halves(scales + 32);
  }
  return f;
}

/// Adds the integers s of part `part` of a block to the sums: scale * s and minimum * sum of activations.
template <packing P>
inline __m512 scaled(__m512 acc, __m512i s, int part, const factors& f, const tile_input& x, std::int64_t at) {
  constexpr bool sums = form<P>.offset > 0 || (form<P>.minima && form<P>.halves);
  std::int32_t sum = 0;
  if constexpr (sums) sum = parts<P> == 1 ? x.sums[at] : part == 0 ? x.first_sums[at] : x.sums[at] - x.first_sums[at];
  if constexpr (form<P>.offset > 0) s = _mm512_sub_epi32(s, _mm512_set1_epi32(form<P>.offset * sum));
  acc = _mm512_fmadd_ps(_mm512_mul_ps(f.scale[part], _mm512_set1_ps(x.scales[at])), _mm512_cvtepi32_ps(s), acc);
  if constexpr (form<P>.minima) {
    const float scaled_sum = parts<P> == 1 ? x.scaled_sums[at] : x.scales[at] * static_cast<float>(sum);
    acc = _mm512_fmadd_ps(f.minimum[part], _mm512_set1_ps(scaled_sum), acc);
  }
  return acc;
}

template <packing P>
inline void fetch_block(const std::uint8_t* quants) {
  constexpr int lines = form<P>.bits + (form<P>.minima && !form<P>.super_blocks ? 1 : 0);
#pragma GCC unroll 8
  for (int i = 0; i < lines; ++i) _mm_prefetch(reinterpret_cast<const char*>(quants + 64 * i), _MM_HINT_T0);
}

/// The vectors of kernels_packed_panel.hpp: a strip's sixteen outputs.
struct panel_vectors {
  using ints = __m512i;
  using floats = __m512;
  static constexpr int lanes = 16;
  static constexpr int rows = 8;  ///< at once, of two vectors: sixteen of the 32 registers are sums

  static ints zero() { return _mm512_setzero_si512(); }
  static ints load(const std::uint8_t* p) { return _mm512_load_si512(p); }
  static ints broadcast(std::int32_t x) { return _mm512_set1_epi32(x); }
  static ints four(const std::int8_t* x) { return cpu::four(x); }
  static ints dot(ints sum, ints w, ints x) { return _mm512_dpbusd_epi32(sum, w, x); }
  static ints times_128(ints x) { return _mm512_slli_epi32(x, 7); }
  static ints add(ints x, ints y) { return _mm512_add_epi32(x, y); }
  static floats to_floats(ints x) { return _mm512_cvtepi32_ps(x); }
  static floats load(const float* p) { return _mm512_load_ps(p); }
  static void store(float* p, floats x) { _mm512_store_ps(p, x); }
  static floats broadcast(float x) { return _mm512_set1_ps(x); }
  static floats mul(floats x, floats y) { return _mm512_mul_ps(x, y); }
  static floats fma(floats x, floats y, floats z) { return _mm512_fmadd_ps(x, y, z); }
  static void store_first(int n, float* p, floats x) {
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>(n < lanes ? (1U << n) - 1 : 0xffff), x);
  }

  template <packing P, int Outputs>
  static void unpack_block(const std::uint8_t* quants, const std::uint8_t* scales, const std::uint8_t* super,
                           unpacked<Outputs>& to, int b, int output) {
#pragma GCC unroll 8
    for (int t = 0; t < 8; ++t) _mm512_store_si512(to.quants[b][t] + 4 * output, piece<P>(quants, t));
    const factors f = factors_at<P>(scales, super);
#pragma GCC unroll 2
    for (int part = 0; part < parts<P>; ++part) {
      store(to.scales[b][part] + output, f.scale[part]);
      if constexpr (form<P>.minima) store(to.minima[b][part] + output, f.minimum[part]);
    }
  }
};

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

/// Four rows, G strips, of formats whose blocks are scaled as one: memory is still near the limit, so weights go from
/// it to the multiplications without a copy. A broadcast of activations serves all strips, a piece of weights all rows
/// and both planes.
template <packing P, int G, bool Fine>
void four_rows_avx512(const tile_args& a) {
  constexpr int planes = Fine ? 2 : 1;
  constexpr int rows = 4;
  alignas(64) float sums[G][rows][16] = {};
  const std::int8_t* x = a.x.quants;
  const std::uint8_t* quants = a.strip;
  const std::uint8_t* scales = a.strip + a.layout.scales;
  for (std::int64_t b = 0; b < a.blocks; ++b) {
    if (a.fetch) {
#pragma GCC unroll 2
      for (int g = 0; g < G; ++g) fetch_block<P>(quants + (g + G) * a.layout.bytes);
    }
    __m512i s[planes][G][rows];
#pragma GCC unroll 2
    for (int plane = 0; plane < planes; ++plane) {
#pragma GCC unroll 2
      for (int g = 0; g < G; ++g) {
#pragma GCC unroll 4
        for (int r = 0; r < rows; ++r) s[plane][g][r] = _mm512_setzero_si512();
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      const int t = i / 2 + i % 2 * 4;  // pieces that share a load, in turn
      __m512i w[G];
#pragma GCC unroll 2
      for (int g = 0; g < G; ++g) w[g] = piece<P>(quants + g * a.layout.bytes, t);
#pragma GCC unroll 2
      for (int plane = 0; plane < planes; ++plane) {
#pragma GCC unroll 4
        for (int r = 0; r < rows; ++r) {
          const __m512i at = four(x + ((8 * plane + t) * rows + r) * 4);
#pragma GCC unroll 2
          for (int g = 0; g < G; ++g) s[plane][g][r] = _mm512_dpbusd_epi32(s[plane][g][r], w[g], at);
        }
      }
    }
    const std::uint8_t* const super = a.strip + a.layout.factors + b / super_block * a.layout.factor_step;
#pragma GCC unroll 2
    for (int g = 0; g < G; ++g) {
      const factors f = factors_at<P>(scales + g * a.layout.bytes, super + g * a.layout.bytes);
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) {
        __m512i all = s[0][g][r];
        if constexpr (Fine) all = _mm512_add_epi32(_mm512_slli_epi32(all, 7), s[1][g][r]);
        _mm512_store_ps(sums[g][r], scaled<P>(_mm512_load_ps(sums[g][r]), all, 0, f, a.x, b * rows + r));
      }
    }
    // The sums stay in memory: with them in registers the integers, which matter more, would be spilled.
    asm volatile("" ::"r"(&sums[0][0][0]) : "memory");
    x += planes * 8 * rows * 4;
    quants += a.layout.quant_step;
    scales += a.layout.scale_step;
  }
  for (int g = 0; g < G; ++g) {
    const int outputs = g + 1 < G ? strip_rows : a.outputs;
    for (int r = 0; r < rows; ++r)
      panel_vectors::store_first(outputs, a.out + r * a.out_stride + g * strip_rows, _mm512_load_ps(sums[g][r]));
  }
}

template <packing P, bool Fine>
void tile_of(int rows, const tile_args& a) {
  if constexpr (parts<P> == 1) {
    if (rows == 4 && a.tiles == 1)
      return a.strips == 2 ? four_rows_avx512<P, 2, Fine>(a) : four_rows_avx512<P, 1, Fine>(a);
  }
  switch (rows) {
    case 8:
      return panel<panel_vectors, P, 8, Fine>(a);
    case 4:
      return panel<panel_vectors, P, 4, Fine>(a);
    case 2:
      return each_strip(rows, a, stream_avx512<P, 2, Fine>);
    default:
      return each_strip(rows, a, stream_avx512<P, 1, Fine>);
  }
}

}  // namespace
}  // namespace kvern::gpu::cpu
