#pragma once

// Products of packed weights with tiles of eight or four rows, for instruction sets that multiply unsigned with signed
// bytes and add four products at a time. A few blocks of one or two strips are taken apart into bytes and floats, which
// all tiles then go over in the first-level cache: taking apart is shared by the tiles, and what is left to do beside
// the multiplications is four or five instructions for a block, a row and a vector of outputs.

#include "gpu/cpu/kernels_packed_common.hpp"

namespace kvern::gpu::cpu {
namespace {

inline constexpr int chunk_blocks = super_block;  ///< taken apart at a time: they share their factors
inline constexpr int panel_tiles = 8;             ///< whose sums are kept at a time

/// What is done with a block's integers.
struct panel_kind {
  int parts;  ///< scaled as one, or for each half
  bool offset;
  bool minima;
};
template <packing P>
constexpr panel_kind kind{parts<P>, form<P>.offset > 0, form<P>.minima};

/// Up to chunk_blocks blocks of strips with `Outputs` outputs side by side. Byte 4 * output + i of a block's piece t
/// belongs to input 4 t + i.
template <int Outputs>
struct unpacked {
  alignas(64) std::uint8_t quants[chunk_blocks][8][4 * Outputs];
  alignas(64) float scales[chunk_blocks][2][Outputs];
  alignas(64) float minima[chunk_blocks][2][Outputs];
};

/// For the blocks of a chunk, their parts and a tile's rows: what is added to the integers, and what the minimum is
/// multiplied with.
template <int R>
struct row_sums {
  alignas(64) std::int32_t offsets[chunk_blocks][2][R];
  alignas(64) float scaled[chunk_blocks][2][R];
};

template <panel_kind K, int R>
inline void sum_rows(const tile_input& x, std::int64_t first_block, int blocks, int offset, row_sums<R>& to) {
  for (int b = 0; b < blocks; ++b) {
    const std::int64_t at = (first_block + b) * R;
    for (int r = 0; r < R; ++r) {
      if constexpr (K.parts == 1) {
        if constexpr (K.offset) to.offsets[b][0][r] = -offset * x.sums[at + r];
        if constexpr (K.minima) to.scaled[b][0][r] = x.scaled_sums[at + r];
      } else {
        const std::int32_t sum[2] = {x.first_sums[at + r], x.sums[at + r] - x.first_sums[at + r]};
        for (int part = 0; part < 2; ++part) {
          if constexpr (K.offset) to.offsets[b][part][r] = -offset * sum[part];
          if constexpr (K.minima) to.scaled[b][part][r] = x.scales[at + r] * static_cast<float>(sum[part]);
        }
      }
    }
  }
}

/// Adds block `b` of the chunk, block `at` of the matrix, to the sums [R][Outputs] of rows [row, row + S) and of G
/// vectors of outputs from `column` on.
///
/// The planes have integers of their own while registers last, which hides the latency of the multiplications; else one
/// set is shifted between the planes. Integer bounds: see kernels_packed_scalar.hpp.
template <class V, panel_kind K, int R, int S, int G, bool Fine, int Outputs>
inline void add_block(const unpacked<Outputs>& w, const row_sums<R>& rows, const tile_input& x, std::int64_t at, int b,
                      int row, int column, float* sums) {
  constexpr int planes = Fine ? 2 : 1;
  constexpr int sets = Fine && G * S <= V::rows ? 2 : 1;
  constexpr bool offset_first = K.offset && planes == sets;
  const std::int8_t* const quants = x.quants + (at * 8 * planes * R + row) * 4;
#pragma GCC unroll 2
  for (int part = 0; part < K.parts; ++part) {
    typename V::ints s[sets][G][S];
#pragma GCC unroll 2
    for (int g = 0; g < G; ++g) {
#pragma GCC unroll 8
      for (int r = 0; r < S; ++r) {
        s[0][g][r] = V::zero();
        s[sets - 1][g][r] = offset_first ? V::broadcast(rows.offsets[b][part][row + r]) : V::zero();
      }
    }
#pragma GCC unroll 2
    for (int pass = 0; pass < planes / sets; ++pass) {
#pragma GCC unroll 8
      for (int t = part * 4; t < (K.parts == 1 ? 8 : part * 4 + 4); ++t) {
        typename V::ints q[G];
#pragma GCC unroll 2
        for (int g = 0; g < G; ++g) q[g] = V::load(w.quants[b][t] + 4 * (column + g * V::lanes));
#pragma GCC unroll 2
        for (int set = 0; set < sets; ++set) {
#pragma GCC unroll 8
          for (int r = 0; r < S; ++r) {
            const typename V::ints four = V::four(quants + ((8 * (pass + set) + t) * R + r) * 4);
#pragma GCC unroll 2
            for (int g = 0; g < G; ++g) s[set][g][r] = V::dot(s[set][g][r], q[g], four);
          }
        }
      }
      if (Fine && pass == 0) {
#pragma GCC unroll 2
        for (int g = 0; g < G; ++g) {
#pragma GCC unroll 8
          for (int r = 0; r < S; ++r) s[0][g][r] = V::times_128(s[0][g][r]);
        }
      }
    }
#pragma GCC unroll 2
    for (int g = 0; g < G; ++g) {
      const int out = column + g * V::lanes;
      const typename V::floats scale = V::load(w.scales[b][part] + out);
#pragma GCC unroll 8
      for (int r = 0; r < S; ++r) {
        typename V::ints all = s[0][g][r];
        if constexpr (sets == 2) all = V::add(all, s[1][g][r]);
        if constexpr (K.offset && !offset_first) all = V::add(all, V::broadcast(rows.offsets[b][part][row + r]));
        float* const sum = sums + (row + r) * Outputs + out;
        typename V::floats now =
            V::fma(V::mul(scale, V::broadcast(x.scales[at * R + row + r])), V::to_floats(all), V::load(sum));
        if constexpr (K.minima)
          now = V::fma(V::load(w.minima[b][part] + out), V::broadcast(rows.scaled[b][part][row + r]), now);
        V::store(sum, now);
      }
    }
    // The sums stay in memory: with them in registers the integers, which matter more, would be spilled.
    asm volatile("" ::"r"(sums) : "memory");
  }
}

/// Asks memory for block `at` of all strips of `a`, or behind their last for a block of the strips after them. Inlined
/// at once: g++ drops calls of functions that do nothing but this, as if they had no effect.
[[gnu::always_inline]] inline void fetch_block(const tile_args& a, std::int64_t at) {
  const std::uint8_t* strip = a.strip;
  if (at >= a.blocks) {
    at -= a.blocks;
    strip += a.strips * a.layout.bytes;
  }
  for (int s = 0; s < a.strips; ++s, strip += a.layout.bytes) {
    for (std::int64_t i = 0; i < a.layout.quant_step; i += 64) __builtin_prefetch(strip + at * a.layout.quant_step + i);
    if (a.layout.scale_step == a.layout.quant_step) continue;
    __builtin_prefetch(strip + a.layout.scales + at * a.layout.scale_step);
    if (at % super_block == 0) __builtin_prefetch(strip + a.layout.factors + at / super_block * a.layout.factor_step);
  }
}

/// `unpack(a, first, blocks, to)` takes blocks [first, first + blocks) of all strips of `a` apart.
template <class V, panel_kind K, int R, int Strips, bool Fine>
void panel_of(const tile_args& a, int offset,
              void (*unpack)(const tile_args&, std::int64_t, int, unpacked<strip_rows * Strips>&)) {
  constexpr int outputs = strip_rows * Strips;
  constexpr int at_once = R < V::rows ? R : V::rows;
  constexpr int vectors = outputs / V::lanes < 2 ? 1 : 2;
  unpacked<outputs> w;
  row_sums<R> rows;
  alignas(64) float sums[panel_tiles][R][outputs];
  for (int first_tile = 0; first_tile < a.tiles; first_tile += panel_tiles) {
    const int tiles = a.tiles - first_tile < panel_tiles ? a.tiles - first_tile : panel_tiles;
    for (int n = 0; n < tiles; ++n) __builtin_memset(sums[n], 0, sizeof sums[n]);
    for (std::int64_t first = 0; first < a.blocks; first += chunk_blocks) {
      const int blocks = a.blocks - first < chunk_blocks ? static_cast<int>(a.blocks - first) : chunk_blocks;
      unpack(a, first, blocks, w);
      for (int n = 0; n < tiles; ++n) {
        const tile_input x = tile_behind(a.x, first_tile + n, R, a.blocks, Fine);
        sum_rows<K, R>(x, first, blocks, offset, rows);
        for (int column = 0; column < outputs; column += vectors * V::lanes) {
          for (int row = 0; row < R; row += at_once) {
            // The next chunk is asked for bit by bit, while this one is multiplied.
            const bool fetch = a.fetch && first_tile + n + column + row == 0;
            for (int b = 0; b < blocks; ++b) {
              if (fetch) fetch_block(a, first + chunk_blocks + b);
              add_block<V, K, R, at_once, vectors, Fine>(w, rows, x, first + b, b, row, column, sums[n][0]);
            }
          }
        }
      }
    }
    for (int n = 0; n < tiles; ++n) {
      for (int r = 0; r < R; ++r) {
        float* const out = a.out + ((first_tile + n) * R + r) * a.out_stride;
        const int there = outputs - strip_rows + a.outputs;
        for (int o = 0; o < there; o += V::lanes) V::store_first(there - o, out + o, V::load(sums[n][r] + o));
      }
    }
  }
}

template <class V, packing P, int Strips>
void unpack_strips(const tile_args& a, std::int64_t first, int blocks, unpacked<strip_rows * Strips>& to) {
  for (int s = 0; s < Strips; ++s) {
    const std::uint8_t* const strip = a.strip + s * a.layout.bytes;
    const std::uint8_t* const super = strip + a.layout.factors + first / super_block * a.layout.factor_step;
    for (int b = 0; b < blocks; ++b) {
      const std::uint8_t* const quants = strip + (first + b) * a.layout.quant_step;
      V::template unpack_block<P>(quants, strip + a.layout.scales + (first + b) * a.layout.scale_step, super, to, b,
                                  s * strip_rows);
    }
  }
}

/// The tiles of `a`, of R rows each.
template <class V, packing P, int R, bool Fine>
void panel(const tile_args& a) {
  if (a.strips == 2) return panel_of<V, kind<P>, R, 2, Fine>(a, form<P>.offset, unpack_strips<V, P, 2>);
  return panel_of<V, kind<P>, R, 1, Fine>(a, form<P>.offset, unpack_strips<V, P, 1>);
}

}  // namespace
}  // namespace kvern::gpu::cpu
