#include "gpu/cpu/ops.hpp"

#include <algorithm>

#include "gpu/cpu/kernel_test_data.hpp"

namespace kvern::gpu::cpu {
namespace {

constexpr double epsilon = 0x1p-24;  // relative error of one rounding

class ops : public testing::TestWithParam<isa> {
 protected:
  void SetUp() override {
    if (GetParam() > best_isa() || !supported(GetParam())) GTEST_SKIP() << "not on this machine";
    RecordProperty("seed", std::to_string(random_.seed()));
  }
  test::random_source random_;
};

TEST_P(ops, rms_norm_matches_double_precision) {
  for (const int n : {1, 15, 64, 576, 577, 1536}) {
    const auto size = static_cast<std::size_t>(n);
    const auto x = random_.normal(size), w = random_.normal(size);
    std::vector<float> out(size);
    rms_norm(x.data(), w.data(), 1e-5F, out.data(), n, GetParam());
    double squares = 0;
    for (const float v : x) squares += static_cast<double>(v) * v;
    const double scale = 1 / std::sqrt(squares / n + static_cast<double>(1e-5F));
    // n / 16 + 4 additions halve in the root; five more roundings follow.
    const double tolerance = (n / 32.0 + 2 + 6) * epsilon;
    for (std::size_t i = 0; i < size; ++i) {
      const double exact = x[i] * scale * w[i];
      ASSERT_NEAR(out[i], exact, std::fabs(exact) * tolerance) << "seed " << random_.seed();
    }
  }
}

TEST_P(ops, rms_norm_of_zeros_is_zero) {
  const std::vector<float> x(40, 0.0F), w(40, 2.0F);
  std::vector<float> out(40, 1.0F);
  rms_norm(x.data(), w.data(), 1e-6F, out.data(), 40, GetParam());
  for (const float v : out) EXPECT_EQ(v, 0.0F);
}

TEST_P(ops, gated_activations_match_double_precision) {
  std::vector<float> g = random_.normal(301, 6), u = random_.normal(301);
  g[0] = 0;
  g[1] = -200;
  g[2] = 200;
  std::vector<float> silu(301), gelu(301);
  silu_mul(g.data(), u.data(), silu.data(), 301, GetParam());
  gelu_mul(g.data(), u.data(), gelu.data(), 301, GetParam());
  for (std::size_t i = 0; i < g.size(); ++i) {
    const double x = g[i];
    const double exact_silu = x / (1 + std::exp(-x)) * u[i];
    ASSERT_NEAR(silu[i], exact_silu, std::fabs(exact_silu) * 8 * epsilon + 1e-37) << x << " seed " << random_.seed();
    const double z = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
    const double exact_gelu = x / (1 + std::exp(-2 * z)) * u[i];
    // The argument of exp errs by 5 roundings, and its result relatively by that much times the argument.
    const double tolerance = (8 + 5 * std::min(100.0, std::fabs(2 * z))) * epsilon;
    ASSERT_NEAR(gelu[i], exact_gelu, std::fabs(exact_gelu) * tolerance + 1e-37) << x << " seed " << random_.seed();
  }
}

TEST_P(ops, out_may_be_an_input) {
  const auto a = random_.normal(77), b = random_.normal(77);
  std::vector<float> apart(77), together = a;
  silu_mul(a.data(), b.data(), apart.data(), 77, GetParam());
  silu_mul(together.data(), b.data(), together.data(), 77, GetParam());
  test::expect_same_bits(apart, together);
  add(a.data(), b.data(), apart.data(), 77, GetParam());
  together = b;
  add(a.data(), together.data(), together.data(), 77, GetParam());
  test::expect_same_bits(apart, together);
  for (std::size_t i = 0; i < 77; ++i) ASSERT_EQ(apart[i], a[i] + b[i]);
}

TEST_P(ops, rope_turns_the_pairs_of_both_conventions) {
  const int heads = 3, head_dim = 50, n_rot = 36;
  for (const rope_pairing pairing : {rope_pairing::norm, rope_pairing::neox}) {
    const auto before = random_.normal(heads * head_dim);
    std::vector<float> x = before, c(n_rot / 2), s(n_rot / 2);
    for (int i = 0; i < n_rot / 2; ++i) {
      c[static_cast<std::size_t>(i)] = std::cos(0.3F * static_cast<float>(i));
      s[static_cast<std::size_t>(i)] = std::sin(0.3F * static_cast<float>(i));
    }
    rope(x.data(), heads, head_dim, n_rot, c.data(), s.data(), pairing, GetParam());
    for (int h = 0; h < heads; ++h) {
      for (int i = 0; i < n_rot / 2; ++i) {
        const auto first = static_cast<std::size_t>(h * head_dim + (pairing == rope_pairing::norm ? 2 * i : i));
        const std::size_t second = first + (pairing == rope_pairing::norm ? 1 : n_rot / 2);
        const double cosine = c[static_cast<std::size_t>(i)], sine = s[static_cast<std::size_t>(i)];
        const double a = before[first], b = before[second];
        const double tolerance = (std::fabs(a) + std::fabs(b)) * 2 * epsilon;
        ASSERT_NEAR(x[first], a * cosine - b * sine, tolerance);
        ASSERT_NEAR(x[second], a * sine + b * cosine, tolerance);
      }
      for (int d = n_rot; d < head_dim; ++d) {
        ASSERT_EQ(x[static_cast<std::size_t>(h * head_dim + d)], before[static_cast<std::size_t>(h * head_dim + d)]);
      }
    }
  }
}

TEST_P(ops, half_round_trip) {
  const auto x = random_.normal(45);
  std::vector<std::uint16_t> h(45);
  std::vector<float> back(45);
  to_half(x.data(), h.data(), 45, GetParam());
  from_half(h.data(), back.data(), 45, GetParam());
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(back[i], x[i], std::fabs(x[i]) * 0x1p-11 + 0x1p-25);
}

INSTANTIATE_TEST_SUITE_P(all, ops, testing::ValuesIn(all_isas),
                         [](const auto& i) { return std::string(to_string(i.param)); });

}  // namespace
}  // namespace kvern::gpu::cpu
