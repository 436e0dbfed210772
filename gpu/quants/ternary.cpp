#include "gpu/quants/families.hpp"

namespace kvern::gpu {

using detail::for_each_block;
using detail::load_scale;

namespace {

/// Digit `place` (0 is the most significant) of five base-3 digits that a byte holds as a fraction of 256: shifted up
/// to the front modulo 256, then the whole part of three times it.
int base3_digit(std::uint8_t packed, int place) {
  constexpr std::uint8_t powers[] = {1, 3, 9, 27, 81};
  const auto front = static_cast<std::uint8_t>(packed * powers[place]);
  return front * 3 >> 8;
}

/// Writes `digits` runs of `width` values, run n from digit n of `width` bytes.
float* decode_digits(const std::uint8_t* in, int width, int digits, float d, float* out) {
  for (int place = 0; place < digits; ++place) {
    for (int i = 0; i < width; ++i) *out++ = d * static_cast<float>(base3_digit(in[i], place) - 1);
  }
  return out;
}

/// 32 and 16 bytes of five digits, 4 bytes of four digits, d.
void decode_tq1_0(const std::uint8_t* in, float* out) {
  const float d = load_scale(in + 52);
  out = decode_digits(in, 32, 5, d, out);
  out = decode_digits(in + 32, 16, 5, d, out);
  decode_digits(in + 48, 4, 4, d, out);
}

/// 64 bytes of 2-bit fields (each 32 bytes hold 128 values, 32 at each of four shifts), d.
void decode_tq2_0(const std::uint8_t* in, float* out) {
  const float d = load_scale(in + 64);
  for (int i = 0; i < 256; ++i) {
    const int field = (in[i / 128 * 32 + i % 32] >> (2 * (i % 128 / 32))) & 3;
    out[i] = d * static_cast<float>(field - 1);
  }
}

}  // namespace

void dequantize_ternary(ggml_type type, const std::uint8_t* blocks, std::size_t count, float* out) {
  switch (type) {
    case ggml_type::tq1_0:
      return for_each_block(type, blocks, count, out, decode_tq1_0);
    case ggml_type::tq2_0:
      return for_each_block(type, blocks, count, out, decode_tq2_0);
    default:
      return;
  }
}

}  // namespace kvern::gpu
