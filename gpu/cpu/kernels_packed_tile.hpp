#pragma once

// Chooses among the tile kernels of a kernels_packed_*.hpp, which is included first.

#include "gpu/cpu/kernels.hpp"

namespace kvern::gpu::cpu {
namespace {

template <packing P>
void tile_of_mode(int rows, const tile_args& a) {
  return a.fine ? tile_of<P, true>(rows, a) : tile_of<P, false>(rows, a);
}

void tile(packing p, int rows, const tile_args& a) {
  switch (p) {
    case packing::q4_0:
      return tile_of_mode<packing::q4_0>(rows, a);
    case packing::q4_1:
      return tile_of_mode<packing::q4_1>(rows, a);
    case packing::q5_0:
      return tile_of_mode<packing::q5_0>(rows, a);
    case packing::q5_1:
      return tile_of_mode<packing::q5_1>(rows, a);
    case packing::q8_0:
      return tile_of_mode<packing::q8_0>(rows, a);
    case packing::q2_k:
      return tile_of_mode<packing::q2_k>(rows, a);
    case packing::q3_k:
      return tile_of_mode<packing::q3_k>(rows, a);
    case packing::q4_k:
      return tile_of_mode<packing::q4_k>(rows, a);
    case packing::q5_k:
      return tile_of_mode<packing::q5_k>(rows, a);
    case packing::q6_k:
      return tile_of_mode<packing::q6_k>(rows, a);
    case packing::iq4_nl:
      return tile_of_mode<packing::iq4_nl>(rows, a);
    case packing::iq4_xs:
      return tile_of_mode<packing::iq4_xs>(rows, a);
  }
}

}  // namespace
}  // namespace kvern::gpu::cpu
