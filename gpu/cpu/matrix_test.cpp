#include "gpu/cpu/matrix.hpp"

#include "gpu/cpu/matrix_test_data.hpp"

namespace kvern::gpu::cpu {
namespace {

TEST(matrix, refuses_tensors_that_do_not_hold_the_rows) {
  test::random_source random;
  thread_team team(1);
  memory_arena arena;
  const test::test_tensor t(ggml_type::q4_0, 4, 64, random);
  const auto code = [&](const gguf_tensor& tensor, std::uint64_t first, std::uint64_t rows) {
    const auto m = matrix::pack(tensor, first, rows, isa::scalar, team, arena);
    return m ? std::string() : m.error().code;
  };
  EXPECT_EQ(code(t.tensor, 0, 4), "");
  EXPECT_EQ(code(t.tensor, 3, 1), "");
  EXPECT_EQ(code(t.tensor, 0, 5), "model_invalid");
  EXPECT_EQ(code(t.tensor, 4, 1), "model_invalid");
  EXPECT_EQ(code(t.tensor, 0, 0), "model_invalid");
  EXPECT_EQ(code(t.tensor, ~std::uint64_t{0}, 2), "model_invalid");
  EXPECT_EQ(code(t.tensor, 1, ~std::uint64_t{0}), "model_invalid");
  gguf_tensor odd = t.tensor;
  odd.dims[0] = 48;
  EXPECT_EQ(code(odd, 0, 1), "model_invalid");
  odd.dims[0] = 0;
  EXPECT_EQ(code(odd, 0, 1), "model_invalid");
  odd.dims[0] = std::uint64_t{1} << 40;
  EXPECT_EQ(code(odd, 0, 1), "model_invalid");
}

TEST(matrix, packed_types_keep_about_their_size) {
  test::random_source random;
  thread_team team(1);
  for (const ggml_type type : {ggml_type::q4_0, ggml_type::q4_1, ggml_type::q5_0, ggml_type::q5_1, ggml_type::q8_0,
                               ggml_type::q2_k, ggml_type::q3_k, ggml_type::q4_k, ggml_type::q5_k, ggml_type::q6_k,
                               ggml_type::iq4_nl, ggml_type::iq4_xs, ggml_type::f16}) {
    const test::test_tensor t(type, 64, 1024, random);
    const auto m = test::packed(t.tensor, 0, 64, best_isa(), team);
    EXPECT_EQ(m->rows(), 64);
    EXPECT_EQ(m->cols(), 1024);
    EXPECT_GE(m->bytes(), t.blocks.size());
    EXPECT_LE(m->bytes(), t.blocks.size() * 104 / 100 + 4096);
  }
}

}  // namespace
}  // namespace kvern::gpu::cpu
