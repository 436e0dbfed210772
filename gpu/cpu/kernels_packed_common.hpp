#pragma once

// What the products of packed weights share for all instruction sets.

#include "gpu/cpu/kernels.hpp"

namespace kvern::gpu::cpu {
namespace {

template <packing P>
constexpr packing_form form = packing_forms[static_cast<int>(P)];

/// How often a block's integers are scaled: for each half, or once.
template <packing P>
constexpr int parts = form<P>.halves ? 2 : 1;

/// The activations of tile `n` of tiles of `rows` rows, of which `x` is the first.
inline tile_input tile_behind(const tile_input& x, int n, int rows, std::int64_t blocks, bool fine) {
  const std::int64_t at = n * rows * blocks;
  return {x.quants + at * (fine ? 2 : 1) * block_cols, x.scales + at, x.scaled_sums + at, x.sums + at,
          x.first_sums + at};
}

/// Calls f for single strips and tiles of `a`, for all tiles of a strip in turn.
template <class F>
inline void each_strip(int rows, const tile_args& a, F f) {
  tile_args one = a;
  one.strips = one.tiles = 1;
  for (int s = 0; s < a.strips; ++s) {
    one.strip = a.strip + s * a.layout.bytes;
    one.outputs = s + 1 < a.strips ? strip_rows : a.outputs;
    for (int n = 0; n < a.tiles; ++n) {
      one.x = tile_behind(a.x, n, rows, a.blocks, a.fine);
      one.out = a.out + n * rows * a.out_stride + s * strip_rows;
      one.fetch = a.fetch && n == 0;
      f(one);
    }
  }
}

}  // namespace
}  // namespace kvern::gpu::cpu
