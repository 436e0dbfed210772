#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cache/cache_options.hpp"
#include "gpu/cpu/matrix.hpp"

namespace kvern::gpu::cpu {

/// How a K or V part of a line holds [kv_head][head_dim] values; see line_view of attention.hpp.
struct line_format {
  line_type type = line_type::f32;
  scale_span span = scale_span::group;  ///< of int8
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  std::int64_t scales_offset = 0;  ///< of int8, in bytes
};

/// Writes `values` [kv_head][head_dim] as a part of that format; its padding stays as it is. f16 and bf16 round to
/// nearest even. int8: scale = f16(largest magnitude / 127), the largest finite f16 where that is infinite;
/// q = value / scale, rounded to nearest even and kept within 127; 0 for NaN and where the scale is 0. Distinct parts
/// may be written by distinct threads.
void store_line(const line_format& format, const float* values, std::byte* out, isa i);

}  // namespace kvern::gpu::cpu
