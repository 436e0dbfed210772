#include "gpu/cpu/float_matrix.hpp"

#include <algorithm>

#include "gpu/cpu/matrix_test_data.hpp"
#include "gpu/quants/dequantize.hpp"

namespace kvern::gpu::cpu {
namespace {

constexpr ggml_type types[] = {ggml_type::f32, ggml_type::f16, ggml_type::bf16};

TEST(float_matrix, rows_are_the_files_values) {
  test::random_source random;
  SCOPED_TRACE(testing::Message() << "seed " << random.seed());
  thread_team team(1);
  for (const ggml_type type : types) {
    const test::test_tensor t(type, 5, 83, random);
    const auto m = test::packed(t.tensor, 1, 4, best_isa(), team);
    std::vector<float> row(83);
    for (int o = 0; o < 4; ++o) {
      m->row(o, row.data());
      for (std::size_t k = 0; k < 83; ++k) ASSERT_EQ(row[k], t.values[static_cast<std::size_t>(o + 1) * 83 + k]);
    }
  }
}

TEST(float_matrix, products_match_double_precision) {
  test::random_source random;
  SCOPED_TRACE(testing::Message() << "seed " << random.seed());
  thread_team team(2);
  const int rows = 35, outputs = 23;
  for (const ggml_type type : types) {
    for (const int cols : {1, 31, 600}) {
      const test::test_tensor t(type, outputs, cols, random);
      const auto x = random.normal(static_cast<std::size_t>(rows * cols));
      const auto m = test::packed(t.tensor, 0, outputs, best_isa(), team);
      const auto out = test::product(*m, x, rows, rows, activation_mode::fine, best_isa(), team);
      for (int r = 0; r < rows; ++r) {
        for (int o = 0; o < outputs; ++o) {
          double exact = 0, magnitude = 0;
          for (int k = 0; k < cols; ++k) {
            const double term =
                t.values[static_cast<std::size_t>(o * cols + k)] * x[static_cast<std::size_t>(r * cols + k)];
            exact += term;
            magnitude += std::fabs(term);
          }
          // Each term passes cols / 16 fused additions and four of the tree.
          ASSERT_NEAR(out[static_cast<std::size_t>(r * outputs + o)], exact, magnitude * (cols / 16 + 5) * 0x1p-24);
        }
      }
    }
  }
}

TEST(float_matrix, one_result_for_every_batch_thread_count_and_instruction_set) {
  test::random_source random;
  SCOPED_TRACE(testing::Message() << "seed " << random.seed());
  for (const ggml_type type : types) {
    const test::test_tensor t(type, 21, 75, random);
    test::expect_one_result(t.tensor, 2, 18, random);
  }
}

/// IQ3_S goes through dequantize(); 768 columns are more than a chunk.
TEST(float_matrix, other_types_are_dequantised_block_by_block) {
  test::random_source random;
  SCOPED_TRACE(testing::Message() << "seed " << random.seed());
  thread_team team(2);
  const ggml_type_traits& type = traits(ggml_type::iq3_s);
  const int outputs = 9, cols = 768;
  const std::size_t blocks = static_cast<std::size_t>(outputs * cols) / type.block_size;
  auto bytes = random.bytes(blocks * type.type_size);
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::uint16_t scale = 0x2000;  // a finite f16 where IQ3_S keeps it
    std::memcpy(bytes.data() + b * type.type_size, &scale, 2);
  }
  std::vector<float> values(static_cast<std::size_t>(outputs * cols));
  dequantize(ggml_type::iq3_s, bytes, values);
  gguf_tensor t;
  t.type = ggml_type::iq3_s;
  t.dims = {static_cast<std::uint64_t>(cols), static_cast<std::uint64_t>(outputs), 1, 1};
  t.data = bytes;
  gguf_tensor wide;
  wide.dims = t.dims;
  wide.data = std::as_bytes(std::span(values));
  const auto x = random.normal(static_cast<std::size_t>(34 * cols));
  const isa i = best_isa();
  test::expect_same_bits(
      test::product(*test::packed(t, 0, outputs, i, team), x, 34, 34, activation_mode::fine, i, team),
      test::product(*test::packed(wide, 0, outputs, i, team), x, 34, 34, activation_mode::fine, i, team));
}

}  // namespace
}  // namespace kvern::gpu::cpu
