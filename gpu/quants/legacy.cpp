#include <cstring>

#include "gpu/quants/families.hpp"

namespace kvern::gpu {

using detail::for_each_block;
using detail::load_at;
using detail::load_scale;

namespace {

constexpr int block = 32;

/// Calls `put(i, nibble)` for 16 bytes of nibbles: the low ones are values 0..15, the high ones 16..31.
template <class Put>
void for_each_nibble(const std::uint8_t* quants, Put put) {
  for (int i = 0; i < block / 2; ++i) {
    put(i, quants[i] & 0xF);
    put(i + block / 2, quants[i] >> 4);
  }
}

/// Bit i of `high`, as the fifth bit of a value.
int fifth_bit(std::uint32_t high, int i) { return static_cast<int>((high >> i) & 1U) << 4; }

/// d, 16 bytes of nibbles.
void decode_q4_0(const std::uint8_t* in, float* out) {
  const float d = load_scale(in);
  for_each_nibble(in + 2, [&](int i, int nibble) { out[i] = d * static_cast<float>(nibble - 8); });
}

/// d, m, 16 bytes of nibbles.
void decode_q4_1(const std::uint8_t* in, float* out) {
  const float d = load_scale(in);
  const float m = load_scale(in + 2);
  for_each_nibble(in + 4, [&](int i, int nibble) { out[i] = d * static_cast<float>(nibble) + m; });
}

/// d, 32 fifth bits, 16 bytes of nibbles.
void decode_q5_0(const std::uint8_t* in, float* out) {
  const float d = load_scale(in);
  const auto high = load_at<std::uint32_t>(in + 2);
  for_each_nibble(in + 6,
                  [&](int i, int nibble) { out[i] = d * static_cast<float>((nibble | fifth_bit(high, i)) - 16); });
}

/// d, m, 32 fifth bits, 16 bytes of nibbles.
void decode_q5_1(const std::uint8_t* in, float* out) {
  const float d = load_scale(in);
  const float m = load_scale(in + 2);
  const auto high = load_at<std::uint32_t>(in + 4);
  for_each_nibble(in + 8, [&](int i, int nibble) { out[i] = d * static_cast<float>(nibble | fifth_bit(high, i)) + m; });
}

/// d, 32 signed bytes.
void decode_q8_0(const std::uint8_t* in, float* out) {
  const float d = load_scale(in);
  for (int i = 0; i < block; ++i) out[i] = d * static_cast<float>(static_cast<std::int8_t>(in[2 + i]));
}

}  // namespace

void dequantize_legacy(ggml_type type, const std::uint8_t* blocks, std::size_t count, float* out) {
  switch (type) {
    case ggml_type::f32:
      if (count != 0) std::memcpy(out, blocks, count * sizeof(float));
      return;
    case ggml_type::f16:
      for (std::size_t i = 0; i < count; ++i) out[i] = f16_to_f32(load_at<std::uint16_t>(blocks + 2 * i));
      return;
    case ggml_type::bf16:
      for (std::size_t i = 0; i < count; ++i) out[i] = bf16_to_f32(load_at<std::uint16_t>(blocks + 2 * i));
      return;
    case ggml_type::q4_0:
      return for_each_block(type, blocks, count, out, decode_q4_0);
    case ggml_type::q4_1:
      return for_each_block(type, blocks, count, out, decode_q4_1);
    case ggml_type::q5_0:
      return for_each_block(type, blocks, count, out, decode_q5_0);
    case ggml_type::q5_1:
      return for_each_block(type, blocks, count, out, decode_q5_1);
    case ggml_type::q8_0:
      return for_each_block(type, blocks, count, out, decode_q8_0);
    default:
      return;
  }
}

}  // namespace kvern::gpu
