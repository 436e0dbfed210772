#include "gpu/cpu/line_format.hpp"

#include <cstring>

#include "gpu/cpu/kernels.hpp"

namespace kvern::gpu::cpu {

void store_line(const line_format& format, const float* values, std::byte* out, isa i) {
  const kernels& k = kernels_for(i);
  const std::int64_t n = std::int64_t{format.kv_heads} * format.head_dim;
  switch (format.type) {
    case line_type::f32:
      std::memcpy(out, values, static_cast<std::size_t>(n) * sizeof(float));
      return;
    case line_type::f16:
      return k.narrow_half(values, reinterpret_cast<std::uint16_t*>(out), n);
    case line_type::bf16:
      return k.narrow_bf16(values, reinterpret_cast<std::uint16_t*>(out), n);
    case line_type::int8: {
      const bool whole = format.span == scale_span::line;
      const std::int64_t cols = whole ? n : format.head_dim;
      k.quantise_line({.x = values,
                       .rows = whole ? 1 : format.kv_heads,
                       .cols = cols,
                       .span = format.span == scale_span::group ? scale_dims : cols,
                       .quants = reinterpret_cast<std::int8_t*>(out),
                       .scales = out + format.scales_offset});
      return;
    }
  }
}

}  // namespace kvern::gpu::cpu
