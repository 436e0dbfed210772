#pragma once

// One weight of a packed strip at a time: how the scalar kernels and row look-ups read what strip_layout describes.
// Internal linkage: see kernels.hpp.

#include <cstdint>
#include <cstring>

#include "gpu/cpu/kernels.hpp"
#include "gpu/quants/half.hpp"

namespace kvern::gpu::cpu {
namespace {

/// Block `b` of a strip.
struct packed_block {
  packing_form form;
  const std::uint8_t* quants;
  const std::uint8_t* scales;
  const std::uint8_t* factors;

  packed_block(packing p, const strip_layout& layout, const std::uint8_t* strip, std::int64_t b)
      : form(packing_forms[static_cast<int>(p)]),
        quants(strip + b * layout.quant_step),
        scales(strip + layout.scales + b * layout.scale_step),
        factors(strip + layout.factors + b / super_block * layout.factor_step) {}

  /// Of input `k` of output `o`.
  int quant(int o, int k) const {
    const int piece = k / 4, byte = 4 * o + k % 4;
    const int pair = piece % 4 * 2;  // where two bits of a piece lie in a byte that holds those of four
    if (form.bits == 8) return quants[64 * piece + byte];
    if (form.bits < 4) {
      const int low = (quants[64 * (piece / 4) + byte] >> pair) & 3;
      return form.bits == 3 ? low | ((quants[128 + byte] >> piece) & 1) << 2 : low;
    }
    const int both = quants[64 * (piece % 4) + byte];
    const int nibble = piece < 4 ? both & 15 : both >> 4;
    if (form.bits == 5) return nibble | ((quants[256 + byte] >> piece) & 1) << 4;
    if (form.bits == 6) return nibble | ((quants[256 + 64 * (piece / 4) + byte] >> pair) & 3) << 4;
    return form.codebook ? iq4_codebook[nibble] : nibble;
  }

  /// Of the inputs from 16 `half` on; with no scales of halves the same for both.
  float scale(int o, int half) const {
    if (!form.super_blocks) return half_at(scales, o);
    const std::uint8_t byte = scales[(form.halves ? 16 * half : 0) + o];
    return product(o, form.minima && form.halves ? byte & 15 : static_cast<std::int8_t>(byte));
  }
  float minimum(int o, int half) const {
    if (!form.minima) return 0;
    if (!form.super_blocks) return half_at(scales, 16 + o);
    return product(16 + o, form.halves ? scales[16 * half + o] >> 4 : static_cast<std::int8_t>(scales[16 + o]));
  }

 private:
  float product(int factor, int by) const { return half_at(factors, factor) * static_cast<float>(by); }
  static float half_at(const std::uint8_t* p, int i) {
    std::uint16_t h;
    std::memcpy(&h, p + 2 * i, sizeof h);
    return f16_to_f32(h);
  }
};

}  // namespace
}  // namespace kvern::gpu::cpu
