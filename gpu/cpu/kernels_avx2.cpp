// AVX2 with FMA and F16C. simd_avx2.hpp comes before what is written over its lanes.
#if defined(__x86_64__)

// clang-format off
#include "gpu/cpu/simd_avx2.hpp"
#include "gpu/cpu/kernels_elementwise.hpp"
#include "gpu/cpu/kernels_rows.hpp"
#include "gpu/cpu/kernels_lines.hpp"
#include "gpu/cpu/kernels_attention.hpp"
#include "gpu/cpu/kernels_table.hpp"
// clang-format on

namespace kvern::gpu::cpu {
namespace {

inline __m256i four(const std::int8_t* x) {
  std::int32_t quad;
  __builtin_memcpy(&quad, x, sizeof quad);
  return _mm256_set1_epi32(quad);
}

inline __m256 halves(const std::uint8_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

/// Products of one plane of S rows with eight outputs, in 32 bits.
///
/// Bounds: nibbles add up eight pairs in 16 bits: 8 * 2 * 15 * 127 = 30480. Q8_0 is made signed again and multiplied as
/// |w| * (x with w's sign): 2 * 128 * 127 = 32512, widened at once.
template <packing P, int R, int S>
inline void plane(const std::uint8_t* quants, const std::int8_t* x, __m256i* s) {
  const __m256i ones = _mm256_set1_epi16(1);
  if constexpr (P == packing::q8_0) {
    for (int r = 0; r < S; ++r) s[r] = _mm256_setzero_si256();
    for (int t = 0; t < 8; ++t) {
      const __m256i stored = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(quants + 64 * t));
      const __m256i w = _mm256_xor_si256(stored, _mm256_set1_epi8(-128));
      const __m256i size = _mm256_abs_epi8(w);
      for (int r = 0; r < S; ++r) {
        const __m256i pairs = _mm256_maddubs_epi16(size, _mm256_sign_epi8(four(x + (t * R + r) * 4), w));
        s[r] = _mm256_add_epi32(s[r], _mm256_madd_epi16(pairs, ones));
      }
    }
  } else {
    const __m256i low = _mm256_set1_epi8(15);
    __m256i pairs[S];
    for (int r = 0; r < S; ++r) pairs[r] = _mm256_setzero_si256();
    for (int t = 0; t < 4; ++t) {
      const __m256i both = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(quants + 64 * t));
      const __m256i w0 = _mm256_and_si256(both, low);
      const __m256i w1 = _mm256_and_si256(_mm256_srli_epi16(both, 4), low);
      for (int r = 0; r < S; ++r) {
        pairs[r] = _mm256_add_epi16(pairs[r], _mm256_maddubs_epi16(w0, four(x + (t * R + r) * 4)));
        pairs[r] = _mm256_add_epi16(pairs[r], _mm256_maddubs_epi16(w1, four(x + ((t + 4) * R + r) * 4)));
      }
    }
    for (int r = 0; r < S; ++r) s[r] = _mm256_madd_epi16(pairs[r], ones);
  }
}

/// Rows [first, first + S) of a tile of R, outputs [8 half, 8 half + 8).
template <packing P, int R, int S, bool Fine>
void part_avx2(const tile_args& a, int first, int half) {
  constexpr int pieces = Fine ? 16 : 8;
  __m256 acc[S];
  for (int r = 0; r < S; ++r) acc[r] = _mm256_setzero_ps();
  for (std::int64_t b = 0; b < a.blocks; ++b) {
    const std::uint8_t* const quants = a.strip + b * a.layout.quant_step + 32 * half;
    const std::uint8_t* const scales = a.strip + a.layout.scales + b * a.layout.scale_step + 16 * half;
    const std::int8_t* const x = a.x.quants + (b * pieces * R + first) * 4;
    __m256i s[S];
    plane<P, R, S>(quants, x, s);
    if constexpr (Fine) {
      __m256i low[S];
      plane<P, R, S>(quants, x + 8 * R * 4, low);
      for (int r = 0; r < S; ++r) s[r] = _mm256_add_epi32(_mm256_slli_epi32(s[r], 7), low[r]);
    }
    const __m256 d = halves(scales);
    for (int r = 0; r < S; ++r) {
      const std::int64_t at = b * R + first + r;
      if constexpr (P == packing::q4_0) {
        s[r] = _mm256_sub_epi32(s[r], _mm256_slli_epi32(_mm256_set1_epi32(a.x.sums[at]), 3));
      }
      acc[r] = _mm256_fmadd_ps(_mm256_mul_ps(d, _mm256_set1_ps(a.x.scales[at])), _mm256_cvtepi32_ps(s[r]), acc[r]);
      if constexpr (P == packing::q4_1) {
        acc[r] = _mm256_fmadd_ps(halves(scales + 32), _mm256_set1_ps(a.x.scaled_sums[at]), acc[r]);
      }
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

const kernels& avx2_kernels() { return table; }

}  // namespace kvern::gpu::cpu

#endif
