// Tiny models of every architecture and weight type against the float64 reference of tests/golden/arch.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>
#include <string>

#include "gpu/cpu/test_drive.hpp"

namespace kvern::gpu::cpu {
namespace {

namespace json = boost::json;

/// Largest distance of a logit from float64.
///
/// Float kernels: what the reference data allows float32 with another order of additions. Integer kernels with 8 bits
/// (fast): its row for 8-bit activations, twice what is measured elsewhere. Fine rounds activations to absmax / 16256
/// where 8 bits have absmax / 127, and the distance is linear in that step: a 128th of the 8-bit row.
constexpr double float_max = 2e-4;
constexpr double fast_max = 1.0;
constexpr double fast_rms = 0.2;
constexpr double fine_max = float_max + fast_max / 128;
constexpr double fine_rms = float_max + fast_rms / 128;

struct golden_model {
  const char* name;
  bool integer;  ///< has matrices that run integer kernels
};

void PrintTo(const golden_model& m, std::ostream* out) { *out << m.name; }

class golden_arch : public testing::TestWithParam<golden_model> {
 protected:
  void SetUp() override {
    const std::string name = std::string("arch/") + GetParam().name;
    const auto gguf = test::golden(name + ".gguf");
    const auto reference = test::golden(name + ".json");
    if (!gguf || !reference) GTEST_SKIP() << name << " is not here";
    gguf_ = *gguf;
    reference_ = json::parse(test::read_file(*reference)).as_object();
    prompt_ = json::value_to<test::tokens>(reference_.at("prompt_ids"));
  }

  struct distance {
    double max = 0, rms = 0;
  };

  distance from_reference(backend& b) {
    const auto logits = test::all_logits(b, {prompt_}, {});
    distance d;
    double squares = 0;
    std::size_t count = 0;
    for (const auto& [position, values] : reference_.at("ref_logits").as_object()) {
      const auto expected = json::value_to<std::vector<double>>(values);
      const auto& got = logits[0][static_cast<std::size_t>(std::stoi(position))];
      EXPECT_EQ(got.size(), expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const double off = std::abs(static_cast<double>(got[i]) - expected[i]);
        d.max = std::max(d.max, off);
        squares += off * off;
        ++count;
      }
    }
    d.rms = std::sqrt(squares / static_cast<double>(count));
    return d;
  }

  cpu_options options() const { return {.threads = 2, .cache = {.type = line_type::f32}, .max_rows = 64}; }

  std::filesystem::path gguf_;
  json::object reference_;
  test::tokens prompt_;
};

TEST_P(golden_arch, fine_logits_are_near_the_reference) {
  const auto b = test::load(gguf_, options());
  const distance d = from_reference(*b);
  RecordProperty("max", fmt::format("{:.2e}", d.max));
  RecordProperty("rms", fmt::format("{:.2e}", d.rms));
  EXPECT_LE(d.max, GetParam().integer ? fine_max : float_max);
  EXPECT_LE(d.rms, GetParam().integer ? fine_rms : float_max);
}

TEST_P(golden_arch, fast_logits_are_within_what_8_bits_allow) {
  auto o = options();
  o.activations = activation_mode::fast;
  const auto b = test::load(gguf_, o);
  const distance d = from_reference(*b);
  RecordProperty("max", fmt::format("{:.2e}", d.max));
  RecordProperty("rms", fmt::format("{:.2e}", d.rms));
  EXPECT_LE(d.max, GetParam().integer ? fast_max : float_max);
  EXPECT_LE(d.rms, fast_rms);
}

TEST_P(golden_arch, greedy_tokens_are_equal) {
  const auto expected = json::value_to<test::tokens>(reference_.at("greedy_ids"));
  for (const line_type kv : {line_type::f32, line_type::f16}) {
    auto o = options();
    o.cache.type = kv;
    const auto b = test::load(gguf_, o);
    EXPECT_EQ(test::greedy(*b, prompt_, static_cast<int>(expected.size())), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(arch, golden_arch,
                         testing::Values(golden_model{"llama", false}, golden_model{"llama-f16", false},
                                         golden_model{"llama3-rope", false}, golden_model{"llama-yarn", false},
                                         golden_model{"gemma2", false}, golden_model{"gemma3", false},
                                         golden_model{"gemma3-scaled", false}, golden_model{"llama-q8_0", true},
                                         golden_model{"llama-q4_0", true}, golden_model{"llama-q5_k", true},
                                         golden_model{"llama-q6_k", true}, golden_model{"llama-q4_k", true}),
                         [](const auto& i) {
                           std::string name = i.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace kvern::gpu::cpu
