#include "gpu/quants/families.hpp"

namespace kvern::gpu {

using detail::for_each_block;
using detail::load_scale;
using detail::q3_scale;
using detail::six_bits;

namespace {

/// 16 values of 2-bit fields (each 32 bytes hold 128 values, 32 at each of four shifts), those of group g.
struct two_bit_group {
  const std::uint8_t* fields;
  int shift;

  two_bit_group(const std::uint8_t* quants, int g) : fields(quants + g / 8 * 32 + g % 2 * 16), shift(g % 8 / 2 * 2) {}
  int operator[](int i) const { return (fields[i] >> shift) & 3; }
};

/// 16 scales (low nibble) and mins (high), 64 bytes of 2-bit fields, d, dmin. A scale serves 16 values.
void decode_q2_k(const std::uint8_t* in, float* out) {
  const float d = load_scale(in + 80);
  const float dmin = load_scale(in + 82);
  for (int g = 0; g < 16; ++g) {
    const float scale = d * static_cast<float>(in[g] & 0xF);
    const float min = dmin * static_cast<float>(in[g] >> 4);
    const two_bit_group quants(in + 16, g);
    for (int i = 0; i < 16; ++i) out[16 * g + i] = scale * static_cast<float>(quants[i]) - min;
  }
}

/// 32 bytes of mask (bit b of byte j belongs to value 32 * b + j; a bit that is clear means 4 less), 64 bytes of 2-bit
/// fields, 12 bytes of scales, d.
void decode_q3_k(const std::uint8_t* in, float* out) {
  const float d = load_scale(in + 108);
  for (int g = 0; g < 16; ++g) {
    const float scale = d * static_cast<float>(q3_scale(in + 96, g));
    const two_bit_group quants(in + 32, g);
    const std::uint8_t* mask = in + g % 2 * 16;
    for (int i = 0; i < 16; ++i) {
      const int high = (mask[i] >> (g / 2)) & 1;
      out[16 * g + i] = scale * static_cast<float>(quants[i] + 4 * high - 4);
    }
  }
}

/// d, dmin, 12 bytes of scales and mins, 128 bytes of nibbles (each 32 bytes hold 64 values, the low nibbles first). A
/// pair serves 32 values.
void decode_q4_k(const std::uint8_t* in, float* out) {
  const float d = load_scale(in);
  const float dmin = load_scale(in + 2);
  for (int g = 0; g < 8; ++g) {
    const auto [scale, min] = six_bits(in + 4, g);
    const float by = d * static_cast<float>(scale);
    const float less = dmin * static_cast<float>(min);
    const std::uint8_t* quants = in + 16 + g / 2 * 32;
    const int shift = g % 2 * 4;
    for (int i = 0; i < 32; ++i) out[32 * g + i] = by * static_cast<float>((quants[i] >> shift) & 0xF) - less;
  }
}

/// d, dmin, 12 bytes of scales and mins, 32 bytes of fifth bits (bit b of byte j belongs to value 32 * b + j), 128
/// bytes of nibbles as in Q4_K.
void decode_q5_k(const std::uint8_t* in, float* out) {
  const float d = load_scale(in);
  const float dmin = load_scale(in + 2);
  for (int g = 0; g < 8; ++g) {
    const auto [scale, min] = six_bits(in + 4, g);
    const float by = d * static_cast<float>(scale);
    const float less = dmin * static_cast<float>(min);
    const std::uint8_t* quants = in + 48 + g / 2 * 32;
    const int shift = g % 2 * 4;
    for (int i = 0; i < 32; ++i) {
      const int high = (in[16 + i] >> g) & 1;
      out[32 * g + i] = by * static_cast<float>(((quants[i] >> shift) & 0xF) | high << 4) - less;
    }
  }
}

/// 128 bytes of low nibbles (each 64 bytes hold 128 values, the low nibbles first), 64 bytes of 2-bit fields above
/// them, 16 signed scales, d; 32 is zero.
void decode_q6_k(const std::uint8_t* in, float* out) {
  const float d = load_scale(in + 208);
  for (int g = 0; g < 16; ++g) {
    const float scale = d * static_cast<float>(static_cast<std::int8_t>(in[192 + g]));
    const std::uint8_t* low = in + g / 8 * 64 + g % 4 * 16;
    const int shift = g % 8 / 4 * 4;
    const two_bit_group high(in + 128, g);
    for (int i = 0; i < 16; ++i) {
      out[16 * g + i] = scale * static_cast<float>((((low[i] >> shift) & 0xF) | high[i] << 4) - 32);
    }
  }
}

}  // namespace

void dequantize_k(ggml_type type, const std::uint8_t* blocks, std::size_t count, float* out) {
  switch (type) {
    case ggml_type::q2_k:
      return for_each_block(type, blocks, count, out, decode_q2_k);
    case ggml_type::q3_k:
      return for_each_block(type, blocks, count, out, decode_q3_k);
    case ggml_type::q4_k:
      return for_each_block(type, blocks, count, out, decode_q4_k);
    case ggml_type::q5_k:
      return for_each_block(type, blocks, count, out, decode_q5_k);
    case ggml_type::q6_k:
      return for_each_block(type, blocks, count, out, decode_q6_k);
    default:
      return;
  }
}

}  // namespace kvern::gpu
