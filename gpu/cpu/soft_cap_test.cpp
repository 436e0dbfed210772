#include "gpu/cpu/soft_cap.hpp"

#include <cmath>

#include "gpu/cpu/kernel_test_data.hpp"

namespace kvern::gpu::cpu {
namespace {

TEST(soft_cap, follows_tanh_in_double_precision) {
  for (const float cap : {1.0F, 8.0F, 30.0F, 50.0F}) {
    std::vector<float> x;
    for (float v = 1e-6F; v < 1e4F; v *= 1.03F) x.insert(x.end(), {v, -v});
    auto capped = x;
    soft_cap(capped.data(), cap, static_cast<std::int64_t>(x.size()), best_isa());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = static_cast<double>(cap) * std::tanh(static_cast<double>(x[i]) / static_cast<double>(cap));
      ASSERT_NEAR(capped[i], exact, static_cast<double>(cap) * 0x1p-21) << x[i];
    }
  }
}

TEST(soft_cap, ends_at_the_cap_and_keeps_nan) {
  std::vector<float> x{0, 1e30F, -1e30F, INFINITY, -INFINITY, NAN};
  soft_cap(x.data(), 5, 6, best_isa());
  EXPECT_EQ(x[0], 0);
  for (const std::size_t i : {1U, 3U}) EXPECT_EQ(x[i], 5);
  for (const std::size_t i : {2U, 4U}) EXPECT_EQ(x[i], -5);
  EXPECT_TRUE(std::isnan(x[5]));
}

TEST(soft_cap, instruction_sets_agree_to_the_bit) {
  test::random_source random;
  SCOPED_TRACE(testing::Message() << "seed " << random.seed());
  for (const std::size_t n : {1U, 17U, 512U, 1300U}) {
    const auto x = random.normal(n, 40);
    auto expected = x;
    soft_cap(expected.data(), 30, static_cast<std::int64_t>(n), isa::scalar);
    for (const isa i : test::available()) {
      auto got = x;
      soft_cap(got.data(), 30, static_cast<std::int64_t>(n), i);
      test::expect_same_bits(got, expected);
    }
  }
}

}  // namespace
}  // namespace kvern::gpu::cpu
