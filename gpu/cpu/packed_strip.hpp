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

  /// As stored, of input `k` of output `o`.
  int quant(int o, int k) const {
    const int piece = k / 4, byte = 4 * o + k % 4;
    if (form.bits == 8) return quants[64 * piece + byte];
    const int both = quants[64 * (piece % 4) + byte];
    const int nibble = piece < 4 ? both & 15 : both >> 4;
    if (form.bits == 5) return nibble | ((quants[256 + byte] >> piece) & 1) << 4;
    if (form.bits == 6) return nibble | ((quants[256 + 64 * (piece / 4) + byte] >> (piece % 4 * 2)) & 3) << 4;
    return nibble;
  }

  /// Of the inputs from 16 `half` on; with no scales of halves the same for both.
  float scale(int o, int half) const { return factor(form.halves && half == 1 ? 16 : 0, o, 0); }
  float minimum(int o) const { return form.minima ? factor(16, o, 16) : 0; }

 private:
  /// Entry `first + o` of the scales, times entry `of + o` of the factors if there are any.
  float factor(int first, int o, int of) const {
    if (!form.super_blocks) return half_at(scales, first + o);
    return half_at(factors, of + o) * static_cast<float>(static_cast<std::int8_t>(scales[first + o]));
  }
  static float half_at(const std::uint8_t* p, int i) {
    std::uint16_t h;
    std::memcpy(&h, p + 2 * i, sizeof h);
    return f16_to_f32(h);
  }
};

}  // namespace
}  // namespace kvern::gpu::cpu
