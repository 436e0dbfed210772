#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "gpu/quants/half.hpp"
#include "model/gguf/ggml_type.hpp"

/// The families of block formats behind dequantize(). Each function takes the types its comment names, `count` blocks
/// from `blocks` (at any alignment) and writes count * block_size values to `out`.
namespace kvern::gpu {

/// F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0.
void dequantize_legacy(ggml_type type, const std::uint8_t* blocks, std::size_t count, float* out);
/// Q2_K, Q3_K, Q4_K, Q5_K, Q6_K.
void dequantize_k(ggml_type type, const std::uint8_t* blocks, std::size_t count, float* out);
/// IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, IQ4_NL, IQ4_XS.
void dequantize_iq(ggml_type type, const std::uint8_t* blocks, std::size_t count, float* out);
/// TQ1_0, TQ2_0.
void dequantize_ternary(ggml_type type, const std::uint8_t* blocks, std::size_t count, float* out);
/// MXFP4, NVFP4.
void dequantize_fp4(ggml_type type, const std::uint8_t* blocks, std::size_t count, float* out);

namespace detail {

template <class T>
T load_at(const std::uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

/// The f16 scale at `bytes`.
inline float load_scale(const std::uint8_t* bytes) { return f16_to_f32(load_at<std::uint16_t>(bytes)); }

struct scale_and_min {
  int scale;
  int min;
};

/// Pair g (0..7) of Q4_K's and Q5_K's 12 bytes: the first four pairs lie in the low six bits of bytes 0..3 and 4..7; of
/// the last four, the low nibbles lie in bytes 8..11 and the high two bits on top of the first eight bytes.
inline scale_and_min six_bits(const std::uint8_t* scales, int g) {
  if (g < 4) return {scales[g] & 0x3F, scales[g + 4] & 0x3F};
  return {(scales[g + 4] & 0xF) | ((scales[g - 4] >> 6) << 4), (scales[g + 4] >> 4) | ((scales[g] >> 6) << 4)};
}

/// Scale g (0..15) of Q3_K: low four bits in 8 bytes of nibbles, high two in 4 bytes; 32 is zero.
inline int q3_scale(const std::uint8_t* scales, int g) {
  const int low = (scales[g % 8] >> (g < 8 ? 0 : 4)) & 0xF;
  const int high = (scales[8 + g % 4] >> (2 * (g / 4))) & 3;
  return (low | high << 4) - 32;
}

/// Scale g (0..7) of IQ4_XS: high two bits in a u16, low four in the 4 bytes behind it; 32 is zero.
inline int iq4_scale(const std::uint8_t* scales, int g) {
  const int low = (scales[2 + g / 2] >> (4 * (g % 2))) & 0xF;
  const int high = (load_at<std::uint16_t>(scales) >> (2 * g)) & 3;
  return (low | high << 4) - 32;
}

/// Calls `decode(block, values)` for each block.
template <class Decode>
void for_each_block(ggml_type type, const std::uint8_t* blocks, std::size_t count, float* out, Decode decode) {
  const ggml_type_traits& storage = traits(type);
  for (std::size_t i = 0; i < count; ++i) decode(blocks + i * storage.type_size, out + i * storage.block_size);
}

}  // namespace detail
}  // namespace kvern::gpu
