#include "gpu/cpu/file_block.hpp"

#include "gpu/cpu/kernel_test_data.hpp"

namespace kvern::gpu::cpu {
namespace {

/// scale * (quant - offset) + minimum, in float32, is what dequantize() says, to the bit.
TEST(file_block, holds_the_dequantised_values) {
  test::random_source random;
  SCOPED_TRACE(testing::Message() << "seed " << random.seed());
  for (int n = 0; n < static_cast<int>(std::size(packing_forms)); ++n) {
    const auto p = static_cast<packing>(n);
    const packing_form& form = packing_forms[n];
    const test::test_tensor t(type_of(p), 1, 1024, random);
    std::vector<float> expected(1024);
    dequantize(type_of(p), t.blocks, expected);
    std::vector<float> got;
    for (std::int64_t b = 0; b < 32; ++b) {
      const file_block block = read_file_block(p, t.blocks.data(), b);
      float factors[2] = {test::half_value(block.factors[0]), test::half_value(block.factors[1])};
      for (int k = 0; k < block_cols; ++k) {
        ASSERT_LT(block.quants[k], 1 << form.bits);
        float scale = factors[0], minimum = factors[1];
        if (form.super_blocks) {
          const int part = form.halves && k >= 16 ? 1 : 0;
          scale *= static_cast<float>(block.scales[part]);
          minimum *= static_cast<float>(block.minima[part]);
        }
        const int quant = form.codebook ? iq4_codebook[block.quants[k]] : block.quants[k];
        const float product = scale * static_cast<float>(quant - form.offset);
        got.push_back(form.minima ? product + minimum : product);
      }
    }
    test::expect_same_bits(got, expected);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace kvern::gpu::cpu
