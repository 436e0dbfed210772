#include "gpu/cpu/file_block.hpp"

#include <cstring>

#include "gpu/quants/families.hpp"

namespace kvern::gpu::cpu {
namespace {

using detail::load_at;

constexpr std::uint16_t sign = 0x8000;

void read_nibbles(const std::uint8_t* in, std::uint8_t* out) {
  for (int i = 0; i < 16; ++i) {
    out[i] = in[i] & 15;
    out[i + 16] = in[i] >> 4;
  }
}

void add_fifth_bits(std::uint32_t bits, std::uint8_t* out) {
  for (int i = 0; i < 32; ++i) out[i] = static_cast<std::uint8_t>(out[i] | ((bits >> i) & 1U) << 4);
}

/// Q4_K and Q5_K; `g` is the block in its super-block.
void read_six_bit_scales(const std::uint8_t* in, int g, file_block& out) {
  const detail::scale_and_min both = detail::six_bits(in + 4, g);
  out.scales[0] = static_cast<std::int8_t>(both.scale);
  out.minima[0] = static_cast<std::int8_t>(both.min);
  out.factors[0] = load_at<std::uint16_t>(in);
  out.factors[1] = load_at<std::uint16_t>(in + 2) ^ sign;  // the file's minimum is subtracted
}

void read_q5_k_quants(const std::uint8_t* in, int g, std::uint8_t* out) {
  for (int i = 0; i < 32; ++i) {
    const int low = (in[48 + g / 2 * 32 + i] >> (g % 2 * 4)) & 15;
    out[i] = static_cast<std::uint8_t>(low | ((in[16 + i] >> g) & 1) << 4);
  }
}

/// Each 128 values have 64 bytes of low nibbles and 32 of upper bits; a block has one shift of each.
void read_q6_k(const std::uint8_t* in, int g, file_block& out) {
  const std::uint8_t* const low = in + g / 4 * 64 + g % 2 * 32;
  const std::uint8_t* const high = in + 128 + g / 4 * 32;
  for (int i = 0; i < 32; ++i)
    out.quants[i] = static_cast<std::uint8_t>(((low[i] >> (g % 4 / 2 * 4)) & 15) | ((high[i] >> (g % 4 * 2)) & 3) << 4);
  for (int half = 0; half < 2; ++half) out.scales[half] = static_cast<std::int8_t>(in[192 + 2 * g + half]);
  out.factors[0] = load_at<std::uint16_t>(in + 208);
}

/// Each 128 values have 32 bytes of two-bit fields; a block has one shift of them.
void read_two_bits(const std::uint8_t* in, int g, std::uint8_t* out) {
  for (int i = 0; i < 32; ++i) out[i] = (in[g / 4 * 32 + i] >> (g % 4 * 2)) & 3;
}

void read_q2_k(const std::uint8_t* in, int g, file_block& out) {
  read_two_bits(in + 16, g, out.quants);
  for (int half = 0; half < 2; ++half) {
    out.scales[half] = in[2 * g + half] & 15;
    out.minima[half] = in[2 * g + half] >> 4;
  }
  out.factors[0] = load_at<std::uint16_t>(in + 80);
  out.factors[1] = load_at<std::uint16_t>(in + 82) ^ sign;
}

void read_q3_k(const std::uint8_t* in, int g, file_block& out) {
  read_two_bits(in + 32, g, out.quants);
  for (int i = 0; i < 32; ++i) out.quants[i] = static_cast<std::uint8_t>(out.quants[i] | ((in[i] >> g) & 1) << 2);
  for (int half = 0; half < 2; ++half)
    out.scales[half] = static_cast<std::int8_t>(detail::q3_scale(in + 96, 2 * g + half));
  out.factors[0] = load_at<std::uint16_t>(in + 108);
}

void read_iq4_xs(const std::uint8_t* in, int g, file_block& out) {
  read_nibbles(in + 8 + 16 * g, out.quants);
  out.scales[0] = static_cast<std::int8_t>(detail::iq4_scale(in + 2, g));
  out.factors[0] = load_at<std::uint16_t>(in);
}

}  // namespace

ggml_type type_of(packing p) {
  switch (p) {
    case packing::q4_0:
      return ggml_type::q4_0;
    case packing::q4_1:
      return ggml_type::q4_1;
    case packing::q5_0:
      return ggml_type::q5_0;
    case packing::q5_1:
      return ggml_type::q5_1;
    case packing::q8_0:
      return ggml_type::q8_0;
    case packing::q2_k:
      return ggml_type::q2_k;
    case packing::q3_k:
      return ggml_type::q3_k;
    case packing::q4_k:
      return ggml_type::q4_k;
    case packing::q5_k:
      return ggml_type::q5_k;
    case packing::q6_k:
      return ggml_type::q6_k;
    case packing::iq4_nl:
      return ggml_type::iq4_nl;
    case packing::iq4_xs:
      return ggml_type::iq4_xs;
  }
  return {};
}

file_block read_file_block(packing p, const std::byte* row, std::int64_t b) {
  const packing_form& form = packing_forms[static_cast<int>(p)];
  const int blocks = form.super_blocks ? super_block : 1;
  const auto* in = reinterpret_cast<const std::uint8_t*>(row) + b / blocks * traits(type_of(p)).type_size;
  const int g = static_cast<int>(b % blocks);
  file_block out{};
  if (!form.super_blocks) {
    std::memcpy(out.factors, in, form.minima ? 4 : 2);
    in += form.minima ? 4 : 2;
  }
  switch (p) {
    case packing::q4_0:
    case packing::q4_1:
    case packing::iq4_nl:
      read_nibbles(in, out.quants);
      break;
    case packing::q5_0:
    case packing::q5_1:
      read_nibbles(in + 4, out.quants);
      add_fifth_bits(load_at<std::uint32_t>(in), out.quants);
      break;
    case packing::q8_0:
      for (int i = 0; i < 32; ++i) out.quants[i] = in[i] ^ 0x80;
      break;
    case packing::q2_k:
      read_q2_k(in, g, out);
      break;
    case packing::q3_k:
      read_q3_k(in, g, out);
      break;
    case packing::q4_k:
      read_six_bit_scales(in, g, out);
      for (int i = 0; i < 32; ++i) out.quants[i] = (in[16 + g / 2 * 32 + i] >> (g % 2 * 4)) & 15;
      break;
    case packing::q5_k:
      read_six_bit_scales(in, g, out);
      read_q5_k_quants(in, g, out.quants);
      break;
    case packing::q6_k:
      read_q6_k(in, g, out);
      break;
    case packing::iq4_xs:
      read_iq4_xs(in, g, out);
      break;
  }
  return out;
}

}  // namespace kvern::gpu::cpu
