#pragma once

// Gathers the kernels of one instruction set into its table. Included last.

#include "gpu/cpu/kernels.hpp"

namespace kvern::gpu::cpu {
namespace {

constexpr kernels make_table(void (*tile)(packing, int, const tile_args&)) {
  kernels k{};
  k.quantise = quantise_kernel;
  k.tile = tile;
  k.dot = dot_kernel;
  k.sum_lanes = sum_lanes_kernel;
  k.widen_half = widen_half_kernel;
  k.widen_bf16 = widen_bf16_kernel;
  k.narrow_half = narrow_half_kernel;
  k.narrow_bf16 = narrow_bf16_kernel;
  k.quantise_line = quantise_line_kernel;
  k.attend = attend_kernel;
  k.merge = merge_kernel;
  k.finish = finish_kernel;
  k.rms_norm = rms_norm_kernel;
  k.silu_mul = silu_mul_kernel;
  k.gelu_mul = gelu_mul_kernel;
  k.add = add_kernel;
  k.exp = exp_kernel;
  k.weigh = weigh_kernel;
  k.soft_cap = soft_cap_kernel;
  k.rotate = rotate_kernel;
  k.rotate_adjacent = rotate_adjacent_kernel;
  return k;
}

}  // namespace
}  // namespace kvern::gpu::cpu
