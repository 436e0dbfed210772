#include <algorithm>

#include "gpu/cpu/activations_data.hpp"
#include "gpu/cpu/kernel_test_data.hpp"

namespace kvern::gpu::cpu {
namespace {

/// The integers, scales and sums of one row of prepared activations, whatever group it lies in.
std::vector<float> row_of(const activations::data& d, int row) {
  int first = row / tile_rows * tile_rows;
  while (first + group_rows(first, d.rows) <= row) first += group_rows(first, d.rows);
  const int size = group_rows(first, d.rows), r = row - first;
  const tile_input group = d.group(first);
  const int pieces = d.fine() ? 16 : 8;
  std::vector<float> all;
  for (std::int64_t b = 0; b < d.blocks; ++b) {
    for (int t = 0; t < pieces; ++t) {
      for (int i = 0; i < 4; ++i) all.push_back(group.quants[((b * pieces + t) * size + r) * 4 + i]);
    }
    all.push_back(group.scales[b * size + r]);
    all.push_back(group.scaled_sums[b * size + r]);
    all.push_back(static_cast<float>(group.sums[b * size + r]));
  }
  return all;
}

TEST(activations, a_row_is_the_same_alone_and_in_any_batch) {
  test::random_source random;
  SCOPED_TRACE(testing::Message() << "seed " << random.seed());
  thread_team team(2);
  for (const isa i : test::available()) {
    for (const activation_mode mode : {activation_mode::fine, activation_mode::fast}) {
      const int cols = 320, stride = 333;
      const auto x = random.normal(40 * stride);
      activations alone(mode, i), together(mode, i);
      for (int rows = 1; rows <= 40; ++rows) {
        together.assign(x.data(), rows, cols, stride, team);
        ASSERT_EQ(together.get().rows, rows);
        ASSERT_TRUE(together.get().quantised);
        for (int r = 0; r < rows; ++r) {
          alone.assign(x.data() + r * stride, 1, cols, cols, team);
          test::expect_same_bits(row_of(together.get(), r), row_of(alone.get(), 0));
        }
      }
    }
  }
}

TEST(activations, columns_that_fill_no_block_stay_floats) {
  thread_team team(1);
  const std::vector<float> x(100, 1.0F);
  activations a(activation_mode::fine, isa::scalar);
  a.assign(x.data(), 2, 50, 50, team);
  EXPECT_FALSE(a.get().quantised);
  EXPECT_EQ(a.get().x, x.data());
}

TEST(activations, groups_cover_every_row_once) {
  for (int rows = 0; rows < 100; ++rows) {
    int next = 0;
    while (next < rows) {
      const int size = group_rows(next, rows);
      EXPECT_TRUE(size == 8 || size == 4 || size == 2 || size == 1);
      next += size;
    }
    EXPECT_EQ(next, rows);
  }
}

}  // namespace
}  // namespace kvern::gpu::cpu
