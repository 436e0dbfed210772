#pragma once

// Products of packed weights with AVX2, or with AVX-VNNI where the file that includes this is compiled for it.

#include <immintrin.h>

#include "gpu/cpu/kernels_packed_panel.hpp"

namespace kvern::gpu::cpu {
namespace {

#if defined(__AVXVNNI__)
constexpr bool vnni = true;
#else
constexpr bool vnni = false;
#endif

/// Whether quants are made signed again: AVX2 multiplies pairs in 16 bits, where unsigned bytes saturate.
template <packing P>
constexpr bool made_signed = !vnni && (form<P>.bits == 8 || form<P>.codebook);

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

/// A mask of the first n lanes.
inline __m256i first_lanes(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/// Byte-wise shift to the left by N (to the right if negative), of which only the bits of `keep` are looked at.
template <int N>
inline __m256i shifted(__m256i x, int keep) {
  const __m256i moved = N >= 0 ? _mm256_slli_epi16(x, N >= 0 ? N : 0) : _mm256_srli_epi16(x, N < 0 ? -N : 0);
  return _mm256_and_si256(moved, _mm256_set1_epi8(static_cast<char>(keep)));
}

/// Piece T, eight outputs: unsigned with the offset, or signed without.
template <packing P, int T>
inline __m256i piece(const std::uint8_t* quants) {
  constexpr int bits = form<P>.bits;
  if constexpr (bits == 8) {
    const __m256i w = bytes_at(quants + 64 * T);
    return made_signed<P> ? _mm256_xor_si256(w, _mm256_set1_epi8(-128)) : w;
  }
  if constexpr (bits < 4) {
    const __m256i low = shifted<-(T % 4 * 2)>(bytes_at(quants + 64 * (T / 4)), 3);
    return bits == 3 ? _mm256_or_si256(low, shifted<2 - T>(bytes_at(quants + 128), 4)) : low;
  }
  const __m256i low = shifted < T < 4 ? 0 : -4 > (bytes_at(quants + 64 * (T % 4)), 15);
  if constexpr (form<P>.codebook) {
    const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(iq4_codebook));
    const __m256i w = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), low);
    return made_signed<P> ? _mm256_xor_si256(w, _mm256_set1_epi8(-128)) : w;
  }
  if constexpr (bits == 5) return _mm256_or_si256(low, shifted<4 - T>(bytes_at(quants + 256), 16));
  if constexpr (bits == 6)
    return _mm256_or_si256(low, shifted<4 - T % 4 * 2>(bytes_at(quants + 256 + 64 * (T / 4)), 48));
  return low;
}

/// Adds the products of the pieces [T, Last) of one plane of S rows to s, in 32 bits.
///
/// Bounds without VNNI: a pair of quants of b bits is at most 2 * (2^b - 1) * 127, so `depth` of them (8 of 4 bits, 4
/// of 2, 3 and 5, 2 of 6) stay below 32768 and are added up in 16 bits. Signed quants are multiplied as |w| * (x with
/// w's sign): 2 * 128 * 127 = 32512, widened at once.
template <packing P, int R, int S, int T, int Last>
inline void add_pieces(const std::uint8_t* quants, const std::int8_t* x, [[maybe_unused]] __m256i* pairs, __m256i* s) {
  const __m256i w = piece<P, T>(quants);
#if defined(__AVXVNNI__)
  for (int r = 0; r < S; ++r) s[r] = _mm256_dpbusd_avx_epi32(s[r], w, four(x + (T * R + r) * 4));
#else
  constexpr int depth = made_signed<P> ? 1 : form<P>.bits == 4 ? 8 : form<P>.bits == 6 ? 2 : 4;
  const __m256i size = made_signed<P> ? _mm256_abs_epi8(w) : w;
  for (int r = 0; r < S; ++r) {
    const __m256i quad = four(x + (T * R + r) * 4);
    const __m256i two = _mm256_maddubs_epi16(size, made_signed<P> ? _mm256_sign_epi8(quad, w) : quad);
    pairs[r] = T % depth == 0 ? two : _mm256_add_epi16(pairs[r], two);
    if (T % depth == depth - 1 || T + 1 == Last)
      s[r] = _mm256_add_epi32(s[r], _mm256_madd_epi16(pairs[r], _mm256_set1_epi16(1)));
  }
#endif
  if constexpr (T + 1 < Last) add_pieces<P, R, S, T + 1, Last>(quants, x, pairs, s);
}

template <packing P, int R, int S, int First, int Last>
inline void plane(const std::uint8_t* quants, const std::int8_t* x, __m256i* s) {
  for (int r = 0; r < S; ++r) s[r] = _mm256_setzero_si256();
  __m256i pairs[S];
  add_pieces<P, R, S, First, Last>(quants, x, pairs, s);
}

/// Of half a strip's block, for each of its parts.
struct factors {
  __m256 scale[2], minimum[2];
};
template <packing P>
inline factors factors_at(const std::uint8_t* scales, const std::uint8_t* super, int half) {
  factors f{};
  if constexpr (form<P>.super_blocks && form<P>.halves && form<P>.minima) {
    for (int part = 0; part < 2; ++part) {
      const std::uint8_t* const bytes = scales + 16 * part + 8 * half;
      const __m256i both = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes)));
      const __m256i low = _mm256_and_si256(both, _mm256_set1_epi32(15)), high = _mm256_srli_epi32(both, 4);
      f.scale[part] = _mm256_mul_ps(halves(super + 16 * half), _mm256_cvtepi32_ps(low));
      f.minimum[part] = _mm256_mul_ps(halves(super + 32 + 16 * half), _mm256_cvtepi32_ps(high));
    }
  } else if constexpr (form<P>.super_blocks) {
    const __m256 factor = halves(super + 16 * half);
    f.scale[0] = _mm256_mul_ps(factor, signed_bytes(scales + 8 * half));
    if constexpr (form<P>.halves) f.scale[1] = _mm256_mul_ps(factor, signed_bytes(scales + 16 + 8 * half));
    if constexpr (form<P>.minima)
      f.minimum[0] = _mm256_mul_ps(halves(super + 32 + 16 * half), signed_bytes(scales + 16 + 8 * half));
  } else {
    f.scale[0] = halves(scales + 16 * half);
    if constexpr (form<P>.minima) f.minimum[0] = halves(scales + 32 + 16 * half);
  }
  return f;
}

/// Adds part Part of block b to acc: scale * integers and minimum * sum of activations.
template <packing P, int R, int S, bool Fine, int Part>
inline void add_part(const tile_input& in, std::int64_t b, int first_row, const std::uint8_t* quants, const factors& f,
                     __m256* acc) {
  constexpr int pieces = Fine ? 16 : 8;
  constexpr int begin = 4 * Part, end = parts<P> == 2 ? begin + 4 : 8;
  const std::int8_t* const x = in.quants + (b * pieces * R + first_row) * 4;
  __m256i s[S];
  plane<P, R, S, begin, end>(quants, x, s);
  if constexpr (Fine) {
    __m256i low[S];
    plane<P, R, S, begin, end>(quants, x + 8 * R * 4, low);
    for (int r = 0; r < S; ++r) s[r] = _mm256_add_epi32(_mm256_slli_epi32(s[r], 7), low[r]);
  }
  for (int r = 0; r < S; ++r) {
    const std::int64_t at = b * R + first_row + r;
    const std::int32_t sum = parts<P> == 1 ? in.sums[at]
                             : Part == 0   ? in.first_sums[at]
                                           : in.sums[at] - in.first_sums[at];
    if constexpr (form<P>.offset > 0 && !made_signed<P>)
      s[r] = _mm256_sub_epi32(s[r], _mm256_set1_epi32(form<P>.offset * sum));
    const __m256 scale = _mm256_mul_ps(f.scale[Part], _mm256_set1_ps(in.scales[at]));
    acc[r] = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(s[r]), acc[r]);
    if constexpr (form<P>.minima) {
      const float scaled_sum = parts<P> == 1 ? in.scaled_sums[at] : in.scales[at] * static_cast<float>(sum);
      acc[r] = _mm256_fmadd_ps(f.minimum[Part], _mm256_set1_ps(scaled_sum), acc[r]);
    }
  }
}

/// Rows [first, first + S) of a tile of R, outputs [8 half, 8 half + 8).
template <packing P, int R, int S, bool Fine>
void part_avx2(const tile_args& a, int first, int half) {
  __m256 acc[S];
  for (int r = 0; r < S; ++r) acc[r] = _mm256_setzero_ps();
  for (std::int64_t b = 0; b < a.blocks; ++b) {
    const std::uint8_t* const quants = a.strip + b * a.layout.quant_step + 32 * half;
    const factors f = factors_at<P>(a.strip + a.layout.scales + b * a.layout.scale_step,
                                    a.strip + a.layout.factors + b / super_block * a.layout.factor_step, half);
    add_part<P, R, S, Fine, 0>(a.x, b, first, quants, f, acc);
    if constexpr (parts<P> == 2) add_part<P, R, S, Fine, 1>(a.x, b, first, quants, f, acc);
  }
  const __m256i there = first_lanes(a.outputs - 8 * half);
  for (int r = 0; r < S; ++r) {
    float* const out = a.out + (first + r) * a.out_stride + 8 * half;
    _mm256_maskstore_ps(out, there, acc[r]);
  }
}

template <packing P, int R, bool Fine>
void tile_avx2(const tile_args& a) {
  constexpr int rows = R < 4 ? R : 4;
  for (int half = 0; half < 2; ++half) {
    for (int first = 0; first < R; first += rows) part_avx2<P, R, rows, Fine>(a, first, half);
  }
}

#if defined(__AVXVNNI__)
/// The vectors of kernels_packed_panel.hpp: half a strip's outputs.
struct panel_vectors {
  using ints = __m256i;
  using floats = __m256;
  static constexpr int lanes = 8;
  static constexpr int rows = 4;  ///< at once, of two vectors: eight of the 16 registers are sums

  static ints zero() { return _mm256_setzero_si256(); }
  static ints load(const std::uint8_t* p) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(p)); }
  static ints broadcast(std::int32_t x) { return _mm256_set1_epi32(x); }
  static ints four(const std::int8_t* x) { return cpu::four(x); }
  static ints dot(ints sum, ints w, ints x) { return _mm256_dpbusd_avx_epi32(sum, w, x); }
  static ints times_128(ints x) { return _mm256_slli_epi32(x, 7); }
  static ints add(ints x, ints y) { return _mm256_add_epi32(x, y); }
  static floats to_floats(ints x) { return _mm256_cvtepi32_ps(x); }
  static floats load(const float* p) { return _mm256_load_ps(p); }
  static void store(float* p, floats x) { _mm256_store_ps(p, x); }
  static floats broadcast(float x) { return _mm256_set1_ps(x); }
  static floats mul(floats x, floats y) { return _mm256_mul_ps(x, y); }
  static floats fma(floats x, floats y, floats z) { return _mm256_fmadd_ps(x, y, z); }
  static void store_first(int n, float* p, floats x) { _mm256_maskstore_ps(p, first_lanes(n), x); }

  template <packing P, int Outputs, int T = 0>
  static void unpack_pieces(const std::uint8_t* quants, unpacked<Outputs>& to, int b, int output) {
    for (int half = 0; half < 2; ++half) {
      const ints w = piece<P, T>(quants + 32 * half);
      _mm256_store_si256(reinterpret_cast<__m256i*>(to.quants[b][T] + 4 * output + 32 * half), w);
    }
    if constexpr (T < 7) unpack_pieces<P, Outputs, T + 1>(quants, to, b, output);
  }
  template <packing P, int Outputs>
  static void unpack_block(const std::uint8_t* quants, const std::uint8_t* scales, const std::uint8_t* super,
                           unpacked<Outputs>& to, int b, int output) {
    unpack_pieces<P>(quants, to, b, output);
    for (int half = 0; half < 2; ++half) {
      const factors f = factors_at<P>(scales, super, half);
      for (int part = 0; part < parts<P>; ++part) {
        store(to.scales[b][part] + output + 8 * half, f.scale[part]);
        if constexpr (form<P>.minima) store(to.minima[b][part] + output + 8 * half, f.minimum[part]);
      }
    }
  }
};
#endif

template <packing P, bool Fine>
void tile_of(int rows, const tile_args& a) {
  switch (rows) {
#if defined(__AVXVNNI__)
    case 8:
      return panel<panel_vectors, P, 8, Fine>(a);
    case 4:
      return panel<panel_vectors, P, 4, Fine>(a);
#else
    case 8:
      return each_strip(rows, a, tile_avx2<P, 8, Fine>);
    case 4:
      return each_strip(rows, a, tile_avx2<P, 4, Fine>);
#endif
    case 2:
      return each_strip(rows, a, tile_avx2<P, 2, Fine>);
    default:
      return each_strip(rows, a, tile_avx2<P, 1, Fine>);
  }
}

}  // namespace
}  // namespace kvern::gpu::cpu
