#include "gpu/quants/dequantize.hpp"

#include <cassert>
#include <cstdint>

#include "gpu/quants/families.hpp"

namespace kvern::gpu {

void dequantize(ggml_type type, std::span<const std::byte> blocks, std::span<float> out) {
  const ggml_type_traits& storage = traits(type);
  const std::size_t count = out.size() / storage.block_size;
  assert(out.size() % storage.block_size == 0);
  assert(blocks.size() == count * storage.type_size);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(blocks.data());
  switch (type) {
    case ggml_type::f32:
    case ggml_type::f16:
    case ggml_type::bf16:
    case ggml_type::q4_0:
    case ggml_type::q4_1:
    case ggml_type::q5_0:
    case ggml_type::q5_1:
    case ggml_type::q8_0:
      return dequantize_legacy(type, bytes, count, out.data());
    case ggml_type::q2_k:
    case ggml_type::q3_k:
    case ggml_type::q4_k:
    case ggml_type::q5_k:
    case ggml_type::q6_k:
      return dequantize_k(type, bytes, count, out.data());
    case ggml_type::iq1_s:
    case ggml_type::iq1_m:
    case ggml_type::iq2_xxs:
    case ggml_type::iq2_xs:
    case ggml_type::iq2_s:
    case ggml_type::iq3_xxs:
    case ggml_type::iq3_s:
    case ggml_type::iq4_nl:
    case ggml_type::iq4_xs:
      return dequantize_iq(type, bytes, count, out.data());
    case ggml_type::tq1_0:
    case ggml_type::tq2_0:
      return dequantize_ternary(type, bytes, count, out.data());
    case ggml_type::mxfp4:
    case ggml_type::nvfp4:
      return dequantize_fp4(type, bytes, count, out.data());
  }
}

}  // namespace kvern::gpu
