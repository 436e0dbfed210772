// Real models (models/NAME.gguf) against the float32 reference. Minutes of arithmetic without optimisation: meant for
// release builds.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <optional>
#include <random>
#include <string>

#include "gpu/cpu/matrix.hpp"
#include "gpu/cpu/test_drive.hpp"

namespace kvern::gpu::cpu {
namespace {

namespace json = boost::json;

/// SmolLM2-135M-Instruct (Q4_1) and Gemma 3 270M (Q4_K_M: Q5_0, Q8_0, Q4_K and Q6_K).
struct real_model {
  const char* name;
  double fast_kl;        ///< what llama.cpp is at with 8 bits, and 10 % that its own variants differ by
  double coarse_kl;      ///< of int8 lines with one scale for a whole head: 256 values are coarser than 64
  int first_length;      ///< of the random prompts
  int longer_by;         ///< the next one
  std::int32_t from;     ///< position whose logits are the first to be compared: a large vocabulary's take memory
  token_id token_limit;  ///< ordinary tokens are below
};

void PrintTo(const real_model& m, std::ostream* out) { *out << m.name; }

class golden_model : public testing::TestWithParam<real_model> {
 protected:
  void SetUp() override {
    const auto model = test::fetched_model(GetParam().name);
    if (!model) GTEST_SKIP() << "models/" << GetParam().name << ".gguf is not here";
    model_ = *model;
  }

  std::filesystem::path reference(const char* folder, const char* extension) const {
    const std::string name = fmt::format("{}/{}.{}", folder, GetParam().name, extension);
    const auto path = test::golden(name);
    EXPECT_TRUE(path) << name << " is not here";
    return path.value_or("");
  }

  std::filesystem::path model_;
};

struct quality {
  double kl = 0;   ///< mean, of the reference's distribution, as its twenty likeliest tokens and one bucket for the
                   ///< rest, to the backend's
  double nll = 0;  ///< mean negative log-likelihood of the texts' tokens
};

quality measure(backend& b, const json::array& texts) {
  quality sum;
  std::size_t count = 0;
  for (const auto& text : texts) {
    const auto ids = json::value_to<test::tokens>(text.at("ids"));
    const auto& top = text.at("top20").as_array();
    test::drive(b, {ids}, {}, [&](std::size_t, std::int32_t position, std::span<const float> logits) {
      if (static_cast<std::size_t>(position) >= top.size()) return;
      const double largest = *std::max_element(logits.begin(), logits.end());
      double all = 0;
      for (const float x : logits) all += std::exp(static_cast<double>(x) - largest);
      double p_rest = 1;
      double q_rest = 1;
      double kl = 0;
      for (const auto& entry : top[static_cast<std::size_t>(position)].as_array()) {
        const double p = std::exp(entry.at(1).to_number<double>());
        const auto id = static_cast<std::size_t>(entry.at(0).to_number<std::int64_t>());
        const double q = std::exp(static_cast<double>(logits[id]) - largest) / all;
        kl += p * std::log(p / q);
        p_rest -= p;
        q_rest -= q;
      }
      // The stored logarithms have five decimals: a rest below that is noise.
      if (p_rest > 1e-4) kl += p_rest * std::log(p_rest / std::max(q_rest, 1e-12));
      sum.kl += kl;
      const auto next = static_cast<std::size_t>(ids[static_cast<std::size_t>(position) + 1]);
      sum.nll += std::log(all) - (static_cast<double>(logits[next]) - largest);
      ++count;
    });
  }
  return {.kl = sum.kl / static_cast<double>(count), .nll = sum.nll / static_cast<double>(count)};
}

TEST_P(golden_model, distributions_are_near_the_reference) {
  const auto logprobs = json::parse(test::read_file(reference("logprobs", "json")));
  const auto& texts = logprobs.at("texts").as_array();
  // Fine: f16 lines alone cost 4e-7, 15-bit activations 2e-7.
  constexpr auto group = scale_span::group;
  struct {
    activation_mode mode;
    line_type kv;
    scale_span scale;
    double most;
  } const cases[] = {{activation_mode::fine, line_type::f32, group, 1e-5},
                     {activation_mode::fine, line_type::f16, group, 1e-5},
                     {activation_mode::fine, line_type::bf16, group, 1e-4},
                     {activation_mode::fine, line_type::int8, group, 1e-3},
                     {activation_mode::fine, line_type::int8, scale_span::head, GetParam().coarse_kl},
                     {activation_mode::fine, line_type::int8, scale_span::line, GetParam().coarse_kl},
                     {activation_mode::fast, line_type::f16, group, GetParam().fast_kl}};
  std::optional<double> exact_nll;  // of f32 lines
  for (const auto& c : cases) {
    const auto b =
        test::load(model_, {.context = 2048, .cache = {.type = c.kv, .scale = c.scale}, .activations = c.mode});
    const quality q = measure(*b, texts);
    if (!exact_nll) exact_nll = q.nll;
    std::cout << fmt::format("{} activations, {} lines{}: mean KL {:.2e}, perplexity {:.4f} ({:+.3f} %)\n",
                             c.mode == activation_mode::fine ? "fine" : "fast", to_string(c.kv),
                             c.kv == line_type::int8 ? fmt::format(" ({})", to_string(c.scale)) : "", q.kl,
                             std::exp(q.nll), 100 * std::expm1(q.nll - *exact_nll));
    EXPECT_LE(q.kl, c.most);
    EXPECT_GE(q.kl, -1e-6);
  }
}

TEST_P(golden_model, greedy_tokens_follow_the_reference_until_it_wavers) {
  const auto b = test::load(model_, {.context = 2048});
  std::size_t compared = 0;
  for (const std::string& line : test::read_lines(reference("greedy", "jsonl"))) {
    if (line.empty()) continue;
    const auto entry = json::parse(line);
    SCOPED_TRACE(json::value_to<std::string>(entry.at("name")));
    const auto prompt = json::value_to<test::tokens>(entry.at("prompt_ids"));
    auto expected = json::value_to<test::tokens>(entry.at("f32_ids"));
    const auto margins = json::value_to<std::vector<double>>(entry.at("f32_margin"));
    // With f16 lines a log-probability moves by up to 0.005.
    const auto sure = std::find_if(margins.begin(), margins.end(), [](double m) { return m < 0.02; }) - margins.begin();
    expected.resize(static_cast<std::size_t>(sure));
    EXPECT_EQ(test::greedy(*b, prompt, static_cast<int>(sure)), expected);
    compared += expected.size();
  }
  std::cout << compared << " tokens compared\n";
  EXPECT_GT(compared, 0u);
}

TEST_P(golden_model, same_bits_however_computed) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  std::vector<test::tokens> prompts(8);
  for (std::size_t n = 0; n < prompts.size(); ++n)
    for (int i = 0; i < GetParam().first_length + GetParam().longer_by * static_cast<int>(n); ++i)
      prompts[n].push_back(static_cast<token_id>(random() % static_cast<unsigned>(GetParam().token_limit)));
  const auto options = [](int threads, line_type kv) {
    return cpu_options{.threads = threads, .context = 512, .cache = {.type = kv}, .max_rows = 256};
  };
  for (const line_type kv : {line_type::f16, line_type::f32}) {
    const auto expected = test::all_logits(*test::load(model_, options(1, kv)), prompts, {.from = GetParam().from});
    for (const int threads : {2, 3}) {
      auto o = options(threads, kv);
      o.page_noise = seed;
      const auto b = test::load(model_, o);
      const auto together = test::all_logits(*b, prompts,
                                             {.seed = seed,
                                              .max_chunk = 40,
                                              .together = true,
                                              .shuffle_pages = true,
                                              .drop_lines = true,
                                              .from = GetParam().from});
      EXPECT_TRUE(together == expected) << threads << " threads, together";
      const auto alone = test::all_logits(*b, prompts, {.seed = seed, .max_chunk = 7, .from = GetParam().from});
      EXPECT_TRUE(alone == expected) << threads << " threads, small chunks";
    }
  }
}

TEST_P(golden_model, instruction_sets_agree_to_the_bit) {
  const test::tokens prompt{504, 1573, 33059, 40061, 30324, 260, 24224, 284};
  const test::drive_options last{.from = 6};
  const auto expected = test::all_logits(*test::load(model_, {.context = 64}), {prompt}, last);
  for (const isa i : all_isas) {
    if (!supported(i)) continue;
    const char* const name = to_string(i);
    const test::narrowed_isa narrowed(name);
    const auto b = test::load(model_, {.context = 64});
    ASSERT_EQ(b->info().kernels, name);
    EXPECT_TRUE(test::all_logits(*b, {prompt}, last) == expected) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(real, golden_model,
                         testing::Values(real_model{"smollm2", 2.4e-3, 1e-3, 20, 13, 15, 49000},
                                         real_model{"gemma3", 4.4e-3, 5e-3, 40, 3, 36, 240000}),
                         [](const auto& i) { return std::string(i.param.name); });

}  // namespace
}  // namespace kvern::gpu::cpu
