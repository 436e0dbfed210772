#pragma once

// Random inputs and comparisons that the tests of the kernels share.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "gpu/cpu/kernels.hpp"
#include "gpu/cpu/matrix.hpp"
#include "gpu/quants/dequantize.hpp"
#include "model/gguf/gguf.hpp"

namespace kvern::gpu::cpu::test {

/// The instruction sets this machine runs, the scalar reference first.
inline std::vector<isa> available() {
  std::vector<isa> all;
  const isa best = best_isa();
  std::copy_if(std::begin(all_isas), std::end(all_isas), std::back_inserter(all),
               [&](isa i) { return i <= best && supported(i); });
  return all;
}

/// Seeded anew for each test program run; the seed is printed when a test fails.
class random_source {
 public:
  explicit random_source(std::uint64_t seed = std::random_device{}()) : seed_(seed), engine_(seed) {}
  std::uint64_t seed() const { return seed_; }

  int integer(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine_); }
  std::vector<float> normal(std::size_t n, float deviation = 1) {
    std::normal_distribution<float> d(0, deviation);
    std::vector<float> v(n);
    for (float& x : v) x = d(engine_);
    return v;
  }
  std::vector<std::byte> bytes(std::size_t n) {
    std::vector<std::byte> v(n);
    for (std::byte& b : v) b = static_cast<std::byte>(engine_() & 255);
    return v;
  }

 private:
  std::uint64_t seed_;
  std::mt19937_64 engine_;
};

inline std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

/// Equal to the bit; a NaN equals any NaN, since which operand's payload survives is no part of the contract.
inline void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    ASSERT_EQ(bits_of(a[i]), bits_of(b[i])) << "element " << i << ": " << a[i] << " and " << b[i];
  }
}

inline float half_value(std::uint16_t h) {
  const int exponent = (h >> 10) & 31, mantissa = h & 1023;
  const double size = exponent == 31  ? (mantissa != 0 ? NAN : INFINITY)
                      : exponent == 0 ? std::ldexp(mantissa, -24)
                                      : std::ldexp(1024 + mantissa, exponent - 25);
  return static_cast<float>((h & 0x8000) != 0 ? -size : size);
}

/// Types whose values test_tensor has from dequantize(), which has tests of its own.
inline bool dequantised(ggml_type type) {
  return type == ggml_type::q5_0 || type == ggml_type::q5_1 || type == ggml_type::q2_k || type == ggml_type::q3_k ||
         type == ggml_type::q4_k || type == ggml_type::q5_k || type == ggml_type::q6_k || type == ggml_type::iq4_nl ||
         type == ggml_type::iq4_xs;
}

/// Where a block keeps its f16, and how many.
struct halves_in_block {
  std::size_t at;
  int count;
};
inline halves_in_block halves_of(ggml_type type) {
  const std::size_t bytes = traits(type).type_size;
  switch (type) {
    case ggml_type::q2_k:
      return {bytes - 4, 2};
    case ggml_type::q3_k:
    case ggml_type::q6_k:
      return {bytes - 2, 1};
    case ggml_type::q4_1:
    case ggml_type::q5_1:
    case ggml_type::q4_k:
    case ggml_type::q5_k:
      return {0, 2};
    default:
      return {0, 1};
  }
}

/// A random tensor in the file's blocks, with finite scales, and its values in double precision.
struct test_tensor {
  std::vector<std::byte> blocks;
  std::vector<double> values;
  gguf_tensor tensor;

  test_tensor(ggml_type type, int rows, int cols, random_source& random) {
    const ggml_type_traits& t = traits(type);
    const std::size_t count = static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols) / t.block_size;
    blocks = random.bytes(count * t.type_size);
    const auto put_half = [&](std::size_t at) {  // 2^-9 to 2^-5, both signs, all mantissas
      const auto h = static_cast<std::uint16_t>((random.integer(0, 1) << 15) | (random.integer(6, 9) << 10) |
                                                random.integer(0, 1023));
      std::memcpy(blocks.data() + at, &h, 2);
      return static_cast<double>(half_value(h));
    };
    for (std::size_t b = 0; b < count; ++b) {
      const std::size_t at = b * t.type_size;
      if (type == ggml_type::f32) {
        const float x = random.normal(1)[0];
        std::memcpy(blocks.data() + at, &x, 4);
        values.push_back(x);
        continue;
      }
      if (dequantised(type)) {
        const halves_in_block halves = halves_of(type);
        for (int h = 0; h < halves.count; ++h) put_half(at + halves.at + 2 * static_cast<std::size_t>(h));
        std::vector<float> exact(t.block_size);
        dequantize(type, std::span(blocks).subspan(at, t.type_size), exact);
        values.insert(values.end(), exact.begin(), exact.end());
        continue;
      }
      const double scale = put_half(at);
      if (type == ggml_type::f16) {
        values.push_back(scale);
        continue;
      }
      if (type == ggml_type::bf16) {
        std::uint16_t h;
        std::memcpy(&h, blocks.data() + at, 2);
        h = static_cast<std::uint16_t>((h & 0x8000) | 0x3e00 | (h & 0x1ff));
        std::memcpy(blocks.data() + at, &h, 2);
        values.push_back(std::bit_cast<float>(std::uint32_t{h} << 16));
        continue;
      }
      const double minimum = type == ggml_type::q4_1 ? put_half(at + 2) : 0;
      const std::size_t quants = at + (type == ggml_type::q4_1 ? 4 : 2);
      for (int k = 0; k < 32; ++k) {
        const int byte =
            static_cast<int>(blocks[quants + static_cast<std::size_t>(type == ggml_type::q8_0 ? k : k % 16)]);
        const int nibble = k < 16 ? byte & 15 : byte >> 4;
        const int q = type == ggml_type::q8_0   ? static_cast<std::int8_t>(byte)
                      : type == ggml_type::q4_0 ? nibble - 8
                                                : nibble;
        values.push_back(scale * q + minimum);
      }
    }
    tensor.name = "weights";
    tensor.type = type;
    tensor.n_dims = 2;
    tensor.dims = {static_cast<std::uint64_t>(cols), static_cast<std::uint64_t>(rows), 1, 1};
    tensor.data = blocks;
  }
};

}  // namespace kvern::gpu::cpu::test
