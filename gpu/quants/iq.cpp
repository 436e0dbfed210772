#include <bit>

#include "gpu/quants/families.hpp"
#include "gpu/quants/iq1_grid.hpp"
#include "gpu/quants/iq2_grids.hpp"
#include "gpu/quants/iq3_grids.hpp"

namespace kvern::gpu {

using detail::for_each_block;
using detail::load_at;
using detail::load_scale;

namespace {

constexpr float iq2_values[4] = {8, 25, 43, 0};
constexpr float iq3_xxs_values[8] = {4, 12, 20, 28, 36, 44, 52, 62};
constexpr float iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/// How far IQ1 moves a lattice point, up or down.
constexpr float iq1_delta = 0.125F;

/// Seven stored sign bits; the eighth makes their number even.
unsigned even_signs(unsigned stored) { return stored | (static_cast<unsigned>(std::popcount(stored)) & 1U) << 7; }

/// `value`, negated when `bit` of `signs` is set; without a branch, since signs are random.
float signed_by(float value, unsigned signs, int bit) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ ((signs >> bit) & 1U) << 31);
}

/// 8 values of a point of an IQ2 grid.
void decode_iq2_point(unsigned entry, unsigned signs, float scale, float* out) {
  for (int j = 0; j < 8; ++j) out[j] = signed_by(scale * iq2_values[(entry >> (2 * j)) & 3U], signs, j);
}

/// d, then for each 32 values four bytes of indices and a word: four times 7 signs, and a scale on top.
void decode_iq2_xxs(const std::uint8_t* in, float* out) {
  const float d = load_scale(in);
  for (int g = 0; g < 8; ++g) {
    const std::uint8_t* indices = in + 2 + 8 * g;
    const auto word = load_at<std::uint32_t>(indices + 4);
    const float scale = d * (0.5F + static_cast<float>(word >> 28)) * 0.25F;
    for (int k = 0; k < 4; ++k) {
      decode_iq2_point(iq2_xxs_grid[indices[k]], even_signs((word >> (7 * k)) & 0x7FU), scale, out + 32 * g + 8 * k);
    }
  }
}

/// d, 32 words (an index of 9 bits, 7 signs above it), 16 scales of 4 bits.
void decode_iq2_xs(const std::uint8_t* in, float* out) {
  const float d = load_scale(in);
  const std::uint8_t* scales = in + 66;
  for (int p = 0; p < 32; ++p) {
    const unsigned word = load_at<std::uint16_t>(in + 2 + 2 * p);
    const int nibble = (scales[p / 4] >> (4 * (p / 2 % 2))) & 0xF;
    const float scale = d * (0.5F + static_cast<float>(nibble)) * 0.25F;
    decode_iq2_point(iq2_xs_grid[word & 511U], even_signs(word >> 9), scale, out + 8 * p);
  }
}

/// d, 32 low bytes of indices, 32 bytes of signs, 8 bytes with the indices' high two bits, 16 scales of 4 bits.
void decode_iq2_s(const std::uint8_t* in, float* out) {
  const float d = load_scale(in);
  const std::uint8_t* signs = in + 34;
  const std::uint8_t* high = in + 66;
  const std::uint8_t* scales = in + 74;
  for (int p = 0; p < 32; ++p) {
    const unsigned index = in[2 + p] | ((high[p / 4] >> (2 * (p % 4))) & 3U) << 8;
    const int nibble = (scales[p / 4] >> (4 * (p / 2 % 2))) & 0xF;
    const float scale = d * (0.5F + static_cast<float>(nibble)) * 0.25F;
    decode_iq2_point(iq2_s_grid[index], signs[p], scale, out + 8 * p);
  }
}

/// d, 64 bytes of indices (4 values each), then for each 32 values a word: four times 7 signs, and a scale on top.
void decode_iq3_xxs(const std::uint8_t* in, float* out) {
  const float d = load_scale(in);
  for (int g = 0; g < 8; ++g) {
    const auto word = load_at<std::uint32_t>(in + 66 + 4 * g);
    const float scale = d * (0.5F + static_cast<float>(word >> 28)) * 0.5F;
    for (int p = 0; p < 8; ++p) {
      const unsigned entry = iq3_xxs_grid[in[2 + 8 * g + p]];
      const unsigned signs = even_signs((word >> (7 * (p / 2))) & 0x7FU) >> (4 * (p % 2));
      for (int j = 0; j < 4; ++j) {
        const float value = iq3_xxs_values[(entry >> (4 * j)) & 7U];
        out[32 * g + 4 * p + j] = signed_by(scale * value, signs, j);
      }
    }
  }
}

/// d, 64 low bytes of indices (4 values each), 8 bytes with their ninth bits, 32 bytes of signs, 8 scales of 4 bits.
void decode_iq3_s(const std::uint8_t* in, float* out) {
  const float d = load_scale(in);
  const std::uint8_t* high = in + 66;
  const std::uint8_t* signs = in + 74;
  const std::uint8_t* scales = in + 106;
  for (int p = 0; p < 64; ++p) {
    const unsigned entry = iq3_s_grid[in[2 + p] | ((high[p / 8] >> (p % 8)) & 1U) << 8];
    const int nibble = (scales[p / 16] >> (4 * (p / 8 % 2))) & 0xF;
    const float scale = d * static_cast<float>(1 + 2 * nibble);
    for (int j = 0; j < 4; ++j) {
      const auto value = static_cast<float>(2 * ((entry >> (4 * j)) & 7U) + 1);
      out[4 * p + j] = signed_by(scale * value, signs[p / 2], 4 * (p % 2) + j);
    }
  }
}

/// 8 values of a point of IQ1's grid.
void decode_iq1_point(unsigned index, bool down, float scale, float* out) {
  const unsigned entry = iq1_grid[index];
  const float delta = down ? -iq1_delta : iq1_delta;
  for (int j = 0; j < 8; ++j) {
    const auto step = static_cast<float>(static_cast<int>((entry >> (2 * j)) & 3U) - 1);
    out[j] = scale * (step + delta);
  }
}

/// d, 32 low bytes of indices, then for each 32 values a u16: four times the high 3 bits, a scale of 3 bits, the
/// shift's direction.
void decode_iq1_s(const std::uint8_t* in, float* out) {
  const float d = load_scale(in);
  for (int g = 0; g < 8; ++g) {
    const unsigned word = load_at<std::uint16_t>(in + 34 + 2 * g);
    const float scale = d * static_cast<float>(2 * ((word >> 12) & 7U) + 1);
    for (int k = 0; k < 4; ++k) {
      const unsigned index = in[2 + 4 * g + k] | ((word >> (3 * k)) & 7U) << 8;
      decode_iq1_point(index, (word & 0x8000U) != 0, scale, out + 32 * g + 8 * k);
    }
  }
}

/// 32 low bytes of indices, 32 nibbles (the high 3 bits and the shift's direction), four u16: each four scales of 3
/// bits for 16 values, and on top a nibble of the f16 scale, the lowest in the first.
void decode_iq1_m(const std::uint8_t* in, float* out) {
  const std::uint8_t* high = in + 32;
  unsigned words[4];
  unsigned whole = 0;
  for (int w = 0; w < 4; ++w) {
    words[w] = load_at<std::uint16_t>(in + 48 + 2 * w);
    whole |= words[w] >> 12 << (4 * w);
  }
  const float d = f16_to_f32(static_cast<std::uint16_t>(whole));
  for (int p = 0; p < 32; ++p) {
    const unsigned nibble = (high[p / 2] >> (4 * (p % 2))) & 0xFU;
    const int g = p / 2;
    const float scale = d * static_cast<float>(2 * ((words[g / 4] >> (3 * (g % 4))) & 7U) + 1);
    decode_iq1_point(in[p] | (nibble & 7U) << 8, (nibble & 8U) != 0, scale, out + 8 * p);
  }
}

/// 16 bytes of nibbles: the low ones are values 0..15, the high ones 16..31.
void decode_iq4_nibbles(const std::uint8_t* in, float scale, float* out) {
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * iq4_values[in[i] & 0xF];
    out[i + 16] = scale * iq4_values[in[i] >> 4];
  }
}

/// d, 16 bytes of nibbles.
void decode_iq4_nl(const std::uint8_t* in, float* out) { decode_iq4_nibbles(in + 2, load_scale(in), out); }

/// d, a u16 with the high two bits of 8 scales, 4 bytes with their low nibbles (32 is zero), 128 bytes of nibbles.
void decode_iq4_xs(const std::uint8_t* in, float* out) {
  const float d = load_scale(in);
  for (int g = 0; g < 8; ++g)
    decode_iq4_nibbles(in + 8 + 16 * g, d * static_cast<float>(detail::iq4_scale(in + 2, g)), out + 32 * g);
}

}  // namespace

void dequantize_iq(ggml_type type, const std::uint8_t* blocks, std::size_t count, float* out) {
  switch (type) {
    case ggml_type::iq1_s:
      return for_each_block(type, blocks, count, out, decode_iq1_s);
    case ggml_type::iq1_m:
      return for_each_block(type, blocks, count, out, decode_iq1_m);
    case ggml_type::iq2_xxs:
      return for_each_block(type, blocks, count, out, decode_iq2_xxs);
    case ggml_type::iq2_xs:
      return for_each_block(type, blocks, count, out, decode_iq2_xs);
    case ggml_type::iq2_s:
      return for_each_block(type, blocks, count, out, decode_iq2_s);
    case ggml_type::iq3_xxs:
      return for_each_block(type, blocks, count, out, decode_iq3_xxs);
    case ggml_type::iq3_s:
      return for_each_block(type, blocks, count, out, decode_iq3_s);
    case ggml_type::iq4_nl:
      return for_each_block(type, blocks, count, out, decode_iq4_nl);
    case ggml_type::iq4_xs:
      return for_each_block(type, blocks, count, out, decode_iq4_xs);
    default:
      return;
  }
}

}  // namespace kvern::gpu
