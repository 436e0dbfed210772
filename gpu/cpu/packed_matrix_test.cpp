#include "gpu/cpu/packed_matrix.hpp"

#include <algorithm>
#include <iterator>

#include "gpu/cpu/file_block.hpp"
#include "gpu/cpu/matrix_test_data.hpp"

namespace kvern::gpu::cpu {
namespace {

constexpr packing packings[] = {packing::q4_0, packing::q4_1, packing::q5_0,   packing::q5_1,
                                packing::q8_0, packing::q2_k, packing::q3_k,   packing::q4_k,
                                packing::q5_k, packing::q6_k, packing::iq4_nl, packing::iq4_xs};
static_assert(std::size(packings) == std::size(packing_forms));

/// About `cols` columns: whole blocks of the type.
int whole_blocks(ggml_type type, int cols) {
  const int size = static_cast<int>(traits(type).block_size);
  return (cols + size - 1) / size * size;
}

/// What scale * quant can be in a test_tensor, whose f16 are below 2^-5.
double largest_product(packing p) {
  const packing_form& form = packing_forms[static_cast<int>(p)];
  return ((1 << (form.codebook ? 8 : form.bits)) - 1) *
         (p == packing::q6_k  ? 128
          : form.super_blocks ? 63
                              : 1) *
         0x1p-5;
}

TEST(packed_matrix, rows_are_the_files_values) {
  test::random_source random;
  SCOPED_TRACE(testing::Message() << "seed " << random.seed());
  thread_team team(2);
  for (const packing p : packings) {
    const ggml_type type = type_of(p);
    const int cols = whole_blocks(type, 96);
    const test::test_tensor t(type, 37, cols, random);
    for (const isa i : test::available()) {
      const auto m = test::packed(t.tensor, 0, 37, i, team);
      std::vector<float> row(static_cast<std::size_t>(cols));
      for (int o = 0; o < 37; ++o) {
        m->row(o, row.data());
        for (std::size_t k = 0; k < row.size(); ++k) {
          // Scale and quant multiply exactly in double; the file's value is that, rounded where a minimum is added.
          const double exact = t.values[static_cast<std::size_t>(o) * row.size() + k];
          ASSERT_NEAR(row[k], exact, std::fabs(exact) * 0x1p-24);
        }
      }
    }
  }
}

/// The only errors are the activations' rounding, half a step each (and 2^-23 of it for scales), and the additions.
TEST(packed_matrix, products_match_double_precision) {
  test::random_source random;
  SCOPED_TRACE(testing::Message() << "seed " << random.seed());
  thread_team team(2);
  const int rows = 11, outputs = 50;
  for (const packing p : packings) {
    const ggml_type type = type_of(p);
    const int cols = whole_blocks(type, 576);
    const test::test_tensor t(type, outputs, cols, random);
    const auto x = random.normal(static_cast<std::size_t>(rows * cols));
    for (const activation_mode mode : {activation_mode::fine, activation_mode::fast}) {
      const isa i = best_isa();
      const auto m = test::packed(t.tensor, 0, outputs, i, team);
      const auto out = test::product(*m, x, rows, rows, mode, i, team);
      const double levels = mode == activation_mode::fine ? 16256 : 127;
      for (int r = 0; r < rows; ++r) {
        for (int o = 0; o < outputs; ++o) {
          double exact = 0, rounding = 0, magnitude = 0;
          for (int b = 0; b < cols / 32; ++b) {
            double peak = 0;
            for (int k = 32 * b; k < 32 * b + 32; ++k)
              peak = std::max(peak, std::fabs(static_cast<double>(x[static_cast<std::size_t>(r * cols + k)])));
            for (int k = 32 * b; k < 32 * b + 32; ++k) {
              const double w = t.values[static_cast<std::size_t>(o * cols + k)];
              exact += w * x[static_cast<std::size_t>(r * cols + k)];
              rounding += std::fabs(w) * 0.51 * peak / levels;
              // Of the larger terms before a minimum or an offset cancels them.
              magnitude += (std::fabs(w) + largest_product(p)) * peak;
            }
          }
          const double tolerance = rounding + magnitude * (cols / 32 * 2 + 8) * 0x1p-24;
          ASSERT_NEAR(out[static_cast<std::size_t>(r * outputs + o)], exact, tolerance);
        }
      }
    }
  }
}

TEST(packed_matrix, one_result_for_every_batch_thread_count_and_instruction_set) {
  test::random_source random;
  SCOPED_TRACE(testing::Message() << "seed " << random.seed());
  for (const packing p : packings) {
    const ggml_type type = type_of(p);
    const test::test_tensor t(type, 45, whole_blocks(type, 160), random);
    test::expect_one_result(t.tensor, 3, 42, random);
  }
}

TEST(packed_matrix, more_rows_than_an_item_holds) {
  test::random_source random;
  SCOPED_TRACE(testing::Message() << "seed " << random.seed());
  thread_team team(2);
  const test::test_tensor t(ggml_type::q4_1, 130, 64, random);
  const auto x = random.normal(203 * 64);
  const isa i = best_isa();
  const auto m = test::packed(t.tensor, 0, 130, i, team);
  test::expect_same_bits(test::product(*m, x, 203, 203, activation_mode::fine, i, team),
                         test::product(*m, x, 203, 1, activation_mode::fine, i, team));
}

TEST(packed_matrix, writes_nothing_beside_its_outputs) {
  test::random_source random;
  thread_team team(1);
  for (const isa i : test::available()) {
    const test::test_tensor t(ggml_type::q8_0, 19, 32, random);
    const auto m = test::packed(t.tensor, 0, 19, i, team);
    const auto x = random.normal(3 * 32);
    activations a(activation_mode::fine, i);
    a.assign(x.data(), 3, 32, 32, team);
    std::vector<float> out(3 * 25, 42.0F);
    m->multiply(a, out.data(), 25, team);
    for (std::size_t r = 0; r < 3; ++r) {
      for (std::size_t o = 19; o < 25; ++o) ASSERT_EQ(out[r * 25 + o], 42.0F);
    }
  }
}

TEST(packed_matrix, a_row_that_is_not_finite_is_nan_and_harms_no_other) {
  test::random_source random;
  thread_team team(1);
  const test::test_tensor t(ggml_type::q4_1, 16, 64, random);
  auto x = random.normal(8 * 64);
  for (const isa i : test::available()) {
    const auto m = test::packed(t.tensor, 0, 16, i, team);
    const auto before = test::product(*m, x, 8, 8, activation_mode::fine, i, team);
    auto broken = x;
    broken[3 * 64 + 40] = INFINITY;
    const auto after = test::product(*m, broken, 8, 8, activation_mode::fine, i, team);
    for (std::size_t r = 0; r < 8; ++r) {
      for (std::size_t o = 0; o < 16; ++o) {
        if (r == 3) {
          ASSERT_TRUE(std::isnan(after[r * 16 + o]));
        } else {
          ASSERT_EQ(test::bits_of(after[r * 16 + o]), test::bits_of(before[r * 16 + o]));
        }
      }
    }
  }
}

/// The largest integers there can be: nothing wraps or saturates.
TEST(packed_matrix, extreme_values_are_exact) {
  thread_team team(1);
  for (const packing p : packings) {
    const ggml_type type = type_of(p);
    const std::size_t bytes = traits(type).type_size;
    for (const int fill : {0x00, 0x7f, 0x80, 0xff}) {
      std::vector<std::byte> blocks(bytes * 16, static_cast<std::byte>(fill));
      const std::uint16_t one = 0x3c00, none = 0;
      const test::halves_in_block halves = test::halves_of(type);
      for (std::size_t o = 0; o < 16; ++o) {
        std::byte* const at = blocks.data() + o * bytes + halves.at;
        std::memcpy(at, &one, 2);
        if (halves.count == 2) std::memcpy(at + 2, &none, 2);
      }
      gguf_tensor t;
      t.type = type;
      const std::size_t cols = traits(type).block_size;
      t.dims = {cols, 16, 1, 1};
      t.data = blocks;
      for (const float sign : {1.0F, -1.0F}) {
        const std::vector<float> x(cols, sign * 16256.0F);
        for (const isa i : test::available()) {
          const auto m = test::packed(t, 0, 16, i, team);
          std::vector<float> row(cols);
          m->row(5, row.data());
          double exact = 0;
          for (const float w : row) exact += static_cast<double>(w) * x[0];
          for (const activation_mode mode : {activation_mode::fine, activation_mode::fast}) {
            // Integers up to 2^24 are exact in float32; beyond, one rounding, as of the scale and of each addition.
            const auto out = test::product(*m, x, 1, 1, mode, i, team);
            for (const float y : out)
              ASSERT_NEAR(y, exact, std::fabs(exact) * static_cast<double>(cols) * 0x1p-27)
                  << to_string(i) << " " << fill;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvern::gpu::cpu
