#include "gpu/quants/dequantize.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "gpu/quants/quants_test_data.hpp"

namespace kvern::gpu {
namespace {

TEST(dequantize, type_table_is_the_references) {
  const auto types = test::reference_types();
  if (types.empty()) GTEST_SKIP() << "no reference data";
  EXPECT_EQ(types.size(), 25u);
  for (const auto& type : types) {
    const ggml_type_traits* storage = find_traits(type.number);
    ASSERT_NE(storage, nullptr) << type.name;
    EXPECT_EQ(storage->name, type.name);
    EXPECT_EQ(storage->block_size, type.block_size) << type.name;
    EXPECT_EQ(storage->type_size, type.type_size) << type.name;
  }
}

TEST(dequantize, every_reference_value_bit_for_bit) {
  const auto types = test::reference_types();
  if (types.empty()) GTEST_SKIP() << "no reference data";
  for (const auto& type : types) test::expect_reference_bits(type.name);
}

TEST(dequantize, a_part_at_any_alignment_equals_the_whole) {
  const auto types = test::reference_types();
  if (types.empty()) GTEST_SKIP() << "no reference data";
  for (const auto& reference : types) {
    const auto type = static_cast<ggml_type>(reference.number);
    const std::string blocks = kvern::test::read_file(*kvern::test::golden("quants/" + reference.bin));
    const auto whole = test::dequantized(type, blocks);
    for (const std::size_t first : {1, 2, 3}) {
      // A copy one byte past an aligned start, and no byte too long.
      std::vector<char> moved(1 + 4 * std::size_t{reference.type_size});
      std::memcpy(moved.data() + 1, blocks.data() + first * reference.type_size, moved.size() - 1);
      const auto part = test::dequantized(type, {moved.data() + 1, moved.size() - 1});
      EXPECT_EQ(std::memcmp(part.data(), whole.data() + first * reference.block_size, part.size() * sizeof(float)), 0)
          << reference.name;
    }
  }
}

TEST(dequantize, f32_is_copied_and_nothing_is_fine) {
  const std::vector<float> values{1.5F, -0.F, 1e-40F};
  const std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  const auto out = test::dequantized(ggml_type::f32, bytes);
  EXPECT_EQ(std::memcmp(out.data(), values.data(), bytes.size()), 0);
  EXPECT_TRUE(test::dequantized(ggml_type::f32, {}).empty());
  EXPECT_TRUE(test::dequantized(ggml_type::q4_k, {}).empty());
}

}  // namespace
}  // namespace kvern::gpu
