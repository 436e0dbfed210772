#include "gpu/cpu/linear.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <span>
#include <vector>

namespace kvern::gpu::cpu {
namespace {

/// A tensor of random values that owns its bytes.
struct owned_tensor {
  owned_tensor(std::uint64_t cols, std::uint64_t rows, unsigned seed, bool half = false) {
    std::mt19937 random(seed);
    const std::uint64_t count = cols * rows;
    if (half) {
      bytes.resize(count * 2);
      for (std::uint64_t i = 0; i < count; ++i) {  // f16 from 1 to 2
        const auto value = static_cast<std::uint16_t>(0x3c00 + random() % 1024);
        std::memcpy(&bytes[i * 2], &value, 2);
      }
    } else {
      bytes.resize(count * 4);
      std::normal_distribution<float> normal;
      for (std::uint64_t i = 0; i < count; ++i) {
        const float value = normal(random);
        std::memcpy(&bytes[i * 4], &value, 4);
      }
    }
    tensor.name = "test";
    tensor.type = half ? ggml_type::f16 : ggml_type::f32;
    tensor.n_dims = 2;
    tensor.dims = {cols, rows, 1, 1};
    tensor.data = bytes;
  }

  std::vector<std::byte> bytes;
  gguf_tensor tensor;
};

constexpr int rows = 3;
constexpr int cols = 64;

std::vector<float> product(const linear& l, const std::vector<float>& x, isa i, thread_team& team) {
  activations input(activation_mode::fine, i);
  input.assign(x.data(), rows, cols, cols, team);
  std::vector<float> out(static_cast<std::size_t>(rows * l.outputs()));
  l.multiply(input, out.data(), l.outputs(), team);
  return out;
}

TEST(linear, fused_and_separate_parts_agree_to_the_bit) {
  thread_team team(2);
  memory_arena arena;
  const isa i = best_isa();
  const owned_tensor a(cols, 40, 1), b(cols, 24, 2), c(cols, 9, 3, true), d(cols, 17, 4);
  const std::vector<const gguf_tensor*> all{&a.tensor, &b.tensor, &c.tensor, &d.tensor};
  const auto whole = linear::pack(all, i, team, arena);
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(whole->outputs(), 40 + 24 + 9 + 17);
  EXPECT_GE(whole->bytes(), (40u + 24 + 17) * cols * 4 + 9 * cols * 2);

  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> x(rows * cols);
  for (float& value : x) value = normal(random);
  const std::vector<float> together = product(*whole, x, i, team);
  int first = 0;
  for (const gguf_tensor* tensor : all) {
    const auto alone = linear::pack(std::span(&tensor, 1), i, team, arena);
    ASSERT_TRUE(alone);
    const std::vector<float> expected = product(*alone, x, i, team);
    for (int r = 0; r < rows; ++r)
      for (int o = 0; o < alone->outputs(); ++o)
        EXPECT_EQ(together[static_cast<std::size_t>(r * whole->outputs() + first + o)],
                  expected[static_cast<std::size_t>(r * alone->outputs() + o)]);
    std::vector<float> row(cols), expected_row(cols);
    for (const int o : {0, alone->outputs() - 1}) {
      whole->row(first + o, row.data());
      alone->row(o, expected_row.data());
      EXPECT_EQ(row, expected_row);
    }
    first += alone->outputs();
  }
}

TEST(linear, a_bias_is_added_once_per_output) {
  linear l;
  std::vector<float> row{1, 2, 3};
  l.add_bias(row.data());
  EXPECT_EQ(row, (std::vector<float>{1, 2, 3}));
  l.bias = {10, 20, 30};
  l.add_bias(row.data());
  EXPECT_EQ(row, (std::vector<float>{11, 22, 33}));
}

}  // namespace
}  // namespace kvern::gpu::cpu
