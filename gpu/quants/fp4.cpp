#include <bit>

#include "gpu/quants/families.hpp"

namespace kvern::gpu {

using detail::for_each_block;

namespace {

/// Twice the values of E2M1; the scales are halved to match. Negative zero is not kept.
constexpr float doubled_e2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// Half of 2^(e - 127); the two smallest are subnormal.
float half_of_e8m0(std::uint8_t e) {
  const std::uint32_t bits = e < 2 ? 0x00200000U << e : static_cast<std::uint32_t>(e - 1) << 23;
  return std::bit_cast<float>(bits);
}

/// Half of an unsigned E4M3 with bias 7. 0x7F, its NaN, counts as 0; the sign bit is ignored elsewhere.
float half_of_ue4m3(std::uint8_t scale) {
  if (scale == 0x7F) return 0.0F;
  const int exponent = (scale >> 3) & 0xF;
  const auto mantissa = static_cast<float>(scale & 7);
  if (exponent == 0) return mantissa * 0x1p-10F;
  // 2^(exponent - 7 - 1), written as float32 bits.
  const auto power = std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 119) << 23);
  return (1.0F + mantissa * 0.125F) * power;
}

/// `bytes` bytes of nibbles: the low ones first, then the high ones.
void decode_nibbles(const std::uint8_t* in, int bytes, float d, float* out) {
  for (int i = 0; i < bytes; ++i) {
    out[i] = d * doubled_e2m1[in[i] & 0xF];
    out[i + bytes] = d * doubled_e2m1[in[i] >> 4];
  }
}

/// A scale E8M0, 16 bytes of nibbles.
void decode_mxfp4(const std::uint8_t* in, float* out) { decode_nibbles(in + 1, 16, half_of_e8m0(in[0]), out); }

/// Four scales UE4M3, then for each 8 bytes of nibbles.
void decode_nvfp4(const std::uint8_t* in, float* out) {
  for (int g = 0; g < 4; ++g) decode_nibbles(in + 4 + 8 * g, 8, half_of_ue4m3(in[g]), out + 16 * g);
}

}  // namespace

void dequantize_fp4(ggml_type type, const std::uint8_t* blocks, std::size_t count, float* out) {
  switch (type) {
    case ggml_type::mxfp4:
      return for_each_block(type, blocks, count, out, decode_mxfp4);
    case ggml_type::nvfp4:
      return for_each_block(type, blocks, count, out, decode_nvfp4);
    default:
      return;
  }
}

}  // namespace kvern::gpu
