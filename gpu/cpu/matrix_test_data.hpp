#pragma once

// What the tests of both kinds of matrices share: a product by each instruction set, thread count and batch.

#include "gpu/cpu/kernel_test_data.hpp"

namespace kvern::gpu::cpu::test {

inline std::unique_ptr<matrix> packed(const gguf_tensor& t, int first, int rows, isa i, thread_team& team) {
  memory_arena arena;
  auto m = matrix::pack(t, static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(rows), i, team, arena);
  EXPECT_TRUE(m.has_value()) << (m ? "" : m.error().message);
  return m ? std::move(*m) : nullptr;
}

/// [rows][outputs], computed `batch` rows at a time.
inline std::vector<float> product(const matrix& m, const std::vector<float>& x, int rows, int batch,
                                  activation_mode mode, isa i, thread_team& team) {
  const auto outputs = static_cast<std::size_t>(m.rows());
  std::vector<float> out(static_cast<std::size_t>(rows) * outputs, -1.0F);
  activations a(mode, i);
  for (int r = 0; r < rows; r += batch) {
    const int now = std::min(batch, rows - r);
    a.assign(x.data() + std::int64_t{r} * m.cols(), now, m.cols(), m.cols(), team);
    m.multiply(a, out.data() + static_cast<std::size_t>(r) * outputs, m.rows(), team);
  }
  return out;
}

/// Every row alone by the scalar reference; then all batches of 1 to 40 rows, 1 to 3 threads and instruction sets: the
/// same bits.
inline void expect_one_result(const gguf_tensor& t, int first, int outputs, random_source& random) {
  const int rows = 40, cols = static_cast<int>(t.row_length());
  const auto x = random.normal(static_cast<std::size_t>(rows * cols));
  thread_team one(1), three(3);
  for (const activation_mode mode : {activation_mode::fine, activation_mode::fast}) {
    const auto reference_matrix = packed(t, first, outputs, isa::scalar, one);
    const auto reference = product(*reference_matrix, x, rows, 1, mode, isa::scalar, one);
    for (const isa i : available()) {
      const auto m = packed(t, first, outputs, i, three);
      for (int batch = 1; batch <= rows; batch += (i == isa::scalar ? 13 : 1)) {
        SCOPED_TRACE(testing::Message() << to_string(i) << " batch " << batch);
        expect_same_bits(product(*m, x, rows, batch, mode, i, batch % 2 != 0 ? three : one), reference);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace kvern::gpu::cpu::test
