#include "gpu/cpu/decoder_forward.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "gpu/cpu/reference_decoder.hpp"
#include "gpu/cpu/test_drive.hpp"
#include "gpu/cpu/tiny_model.hpp"

namespace kvern::gpu::cpu {
namespace {

/// Float32 against float64: logits of spread 1 to 10 after some hundred roundings of 2^-24 each, which add up like a
/// random walk: below 10 * 2^-24 * sqrt(300) = 1e-5. Ten times that leaves room, and any wrong term is far above.
constexpr double tolerance = 1e-4;

class decoder_forward_test : public testing::Test {
 protected:
  void compare(const test::tiny_options& o, test::tiny_model model, test::reference_decoder::shape shape = {}) {
    const auto file = test::must(model.open(folder_));
    shape.layers = static_cast<int>(o.layers);
    shape.dim = static_cast<int>(o.dim);
    shape.heads = static_cast<int>(o.heads);
    shape.kv_heads = static_cast<int>(o.kv_heads);
    shape.head_dim = static_cast<int>(o.head_dim);
    test::tokens tokens;
    for (int i = 0; i < 75; ++i) tokens.push_back(static_cast<token_id>(i * 7 % static_cast<int>(o.vocab)));
    const auto expected = test::reference_decoder(*file, shape).run(tokens);
    const auto b =
        test::must(load_cpu_backend(file, {.threads = 2, .cache = {.type = line_type::f32}, .max_rows = 32}));
    const auto got = test::all_logits(*b, {tokens}, {.max_chunk = 32});
    double worst = 0;
    for (std::size_t p = 0; p < tokens.size(); ++p)
      for (std::size_t i = 0; i < o.vocab; ++i)
        worst = std::max(worst, std::abs(static_cast<double>(got[0][p][i]) - expected[p][i]));
    EXPECT_LE(worst, tolerance);
  }

  test::scratch_folder folder_;
};

TEST_F(decoder_forward_test, plain) {
  const test::tiny_options o;
  compare(o, test::make_tiny_llama(o));
}

TEST_F(decoder_forward_test, tied_embedding) {
  const test::tiny_options o{.tied = true};
  compare(o, test::make_tiny_llama(o));
}

TEST_F(decoder_forward_test, biases_of_every_product) {
  const test::tiny_options o{.biases = true};
  compare(o, test::make_tiny_llama(o));
}

TEST_F(decoder_forward_test, a_bias_of_one_fused_product) {
  const test::tiny_options o{.biases = true};
  auto model = test::make_tiny_llama(o);
  for (const char* name : {"attn_q", "attn_v", "ffn_gate"}) model.tensors.erase("blk.1." + std::string(name) + ".bias");
  compare(o, std::move(model));
}

TEST_F(decoder_forward_test, odd_sizes_and_layers_of_different_width) {
  const test::tiny_options o{
      .layers = 3, .dim = 36, .heads = 6, .kv_heads = 1, .head_dim = 10, .vocab = 37, .ff = {20, 70, 33}};
  compare(o, test::make_tiny_llama(o));
}

TEST_F(decoder_forward_test, one_fused_qkv_tensor) {
  const test::tiny_options o;
  auto model = test::make_tiny_llama(o);
  const auto plain = test::must(model.open(folder_));
  const test::tokens tokens{1, 2, 3, 4, 5};
  const cpu_options options{.threads = 1, .cache = {.type = line_type::f32}, .max_rows = 8};
  const auto expected = test::all_logits(*test::must(load_cpu_backend(plain, options)), {tokens}, {});
  for (const std::string block : {"blk.0.", "blk.1."}) {
    test::tiny_tensor fused{{32, 64}, {}};
    for (const char* name : {"attn_q", "attn_k", "attn_v"}) {
      const auto part = model.tensors.extract(block + name + ".weight");
      fused.values.insert(fused.values.end(), part.mapped().values.begin(), part.mapped().values.end());
    }
    model.tensors[block + "attn_qkv.weight"] = fused;
  }
  const auto b = test::must(load_cpu_backend(test::must(model.open(folder_)), options));
  EXPECT_TRUE(test::all_logits(*b, {tokens}, {}) == expected);
}

TEST_F(decoder_forward_test, rope_factors_scaling_and_magnitude) {
  const test::tiny_options o;
  auto model = test::make_tiny_llama(o);
  model.tensors["rope_freqs.weight"] = {{4}, {1, 1.5F, 4, 8}};
  model.keys["llama.rope.scaling.type"] = std::string("linear");
  model.keys["llama.rope.scaling.factor"] = 2.0F;
  model.keys["llama.rope.scaling.attn_factor"] = 1.25F;
  model.keys["llama.rope.freq_base"] = 500.0F;
  compare(o, std::move(model), {.base = 500, .angle_scale = 0.5, .magnitude = 1.25});
}

TEST_F(decoder_forward_test, the_norm_epsilon_of_the_file_is_used) {
  const test::tiny_options o;
  auto model = test::make_tiny_llama(o);
  model.keys["llama.attention.layer_norm_rms_epsilon"] = 0.05F;
  compare(o, std::move(model), {.epsilon = static_cast<double>(0.05F)});
}

/// 75 positions of 5 layers: windows of 16 and 20 are felt in all but the last of each period.
TEST_F(decoder_forward_test, gemma2_caps_scores_and_logits_and_alternates_windows) {
  const test::tiny_options o{.layers = 5, .ff = {48, 40, 48, 48, 30}, .architecture = "gemma2", .window = 16};
  auto model = test::make_tiny_model(o);
  model.keys["gemma2.attn_logit_softcapping"] = 4.0F;
  model.keys["gemma2.final_logit_softcapping"] = 6.0F;
  compare(o, std::move(model), {.gemma = true, .windows = {16, 0, 16, 0, 16}, .attention_cap = 4, .logit_cap = 6});
}

TEST_F(decoder_forward_test, gemma3_norms_heads_and_turns_local_layers_by_another_base) {
  const test::tiny_options o{.layers = 7, .ff = {48, 48, 48, 48, 48, 48, 48}, .architecture = "gemma3", .window = 20};
  auto model = test::make_tiny_model(o);
  model.keys["gemma3.rope.freq_base"] = 1e6F;
  model.keys["gemma3.rope.scaling.type"] = std::string("linear");
  model.keys["gemma3.rope.scaling.factor"] = 8.0F;
  compare(o, std::move(model),
          {.base = 1e6,
           .angle_scale = 0.125,
           .gemma = true,
           .head_norms = true,
           .windows = {20, 20, 20, 20, 20, 0, 20},
           .local_base = 10000});
}

TEST_F(decoder_forward_test, gemma3_biases_and_a_pattern_of_its_own) {
  const test::tiny_options o{.layers = 3, .ff = {48, 48, 48}, .biases = true, .architecture = "gemma3", .window = 9};
  auto model = test::make_tiny_model(o);
  model.keys["gemma3.attention.sliding_window_pattern"] = std::vector<std::int32_t>{0, 1, 1};
  model.keys["gemma3.rope.freq_base_swa"] = 300.0F;
  compare(o, std::move(model), {.gemma = true, .head_norms = true, .windows = {0, 9, 9}, .local_base = 300});
}

TEST_F(decoder_forward_test, only_rows_that_want_logits_have_them) {
  const auto file = test::must(test::make_tiny_llama().open(folder_));
  const auto b = test::must(load_cpu_backend(file, {.threads = 2, .max_rows = 8}));
  step s;
  s.sequences = {{.pages = {0}, .committed = 0}};
  for (int p = 0; p < 6; ++p) s.rows.push_back({.token = p, .position = p, .sequence = 0, .logits = p % 3 == 1});
  const auto expected = test::all_logits(*b, {{0, 1, 2, 3, 4, 5}}, {});
  test::must(b->forward(s));
  for (std::size_t p = 0; p < 8; ++p) {
    const auto logits = b->logits(p);
    if (p < 6 && p % 3 == 1)
      EXPECT_EQ(std::vector<float>(logits.begin(), logits.end()), expected[0][p]);
    else
      EXPECT_TRUE(logits.empty());
  }
  for (auto& row : s.rows) row.logits = false;
  test::must(b->forward(s));
  for (std::size_t p = 0; p < 6; ++p) EXPECT_TRUE(b->logits(p).empty());
}

}  // namespace
}  // namespace kvern::gpu::cpu
