// For a model, a KV type and an activation mode, the logits of a token depend on its prefix alone.

#include <gtest/gtest.h>

#include <random>

#include "gpu/cpu/matrix.hpp"
#include "gpu/cpu/test_drive.hpp"
#include "gpu/cpu/tiny_model.hpp"

namespace kvern::gpu::cpu {
namespace {

struct same_bits_case {
  const char* model;
  line_type kv;
  activation_mode mode;
};

void PrintTo(const same_bits_case& c, std::ostream* out) { *out << c.model; }

class same_bits : public testing::TestWithParam<same_bits_case> {
 protected:
  void SetUp() override {
    const auto gguf = test::golden(std::string("arch/") + GetParam().model + ".gguf");
    if (!gguf) GTEST_SKIP() << GetParam().model << " is not here";
    gguf_ = *gguf;
    for (std::size_t n = 0; n < 8; ++n) {
      prompts_.emplace_back();
      for (std::size_t i = 0; i < 3 + 14 * n; ++i) prompts_.back().push_back(static_cast<token_id>(random_() % 300));
    }
    expected_ = test::all_logits(*test::load(gguf_, options(1)), prompts_, {});
  }

  cpu_options options(int threads) const {
    return {.threads = threads, .cache = {.type = GetParam().kv}, .activations = GetParam().mode, .max_rows = 128};
  }

  const unsigned seed_ = std::random_device{}();
  testing::ScopedTrace trace_{__FILE__, __LINE__, testing::Message() << "seed " << seed_};
  std::mt19937 random_{seed_};
  std::filesystem::path gguf_;
  std::vector<test::tokens> prompts_;
  std::vector<std::vector<std::vector<float>>> expected_;
};

TEST_P(same_bits, together_in_chunks_on_any_pages_with_any_threads) {
  for (const int threads : {1, 2, 3}) {
    auto o = options(threads);
    o.page_noise = random_();
    const auto b = test::load(gguf_, o);
    for (const std::int32_t chunk : {1, 5, 60}) {
      const test::drive_options how{
          .seed = static_cast<unsigned>(random_()), .max_chunk = chunk, .together = true, .shuffle_pages = true};
      EXPECT_TRUE(test::all_logits(*b, prompts_, how) == expected_) << threads << " threads, chunks up to " << chunk;
    }
  }
}

TEST_P(same_bits, dropped_lines_never_happened) {
  auto o = options(2);
  o.page_noise = random_();
  const auto b = test::load(gguf_, o);
  for (const bool together : {false, true}) {
    const test::drive_options how{.seed = static_cast<unsigned>(random_()),
                                  .max_chunk = 20,
                                  .together = together,
                                  .shuffle_pages = true,
                                  .drop_lines = true};
    EXPECT_TRUE(test::all_logits(*b, prompts_, how) == expected_);
  }
}

TEST_P(same_bits, with_every_instruction_set) {
  for (const isa i : all_isas) {
    if (!supported(i)) continue;
    const char* const name = to_string(i);
    const test::narrowed_isa narrowed(name);
    const auto b = test::load(gguf_, options(2));
    ASSERT_EQ(b->info().kernels, name);
    EXPECT_TRUE(test::all_logits(*b, prompts_, {.max_chunk = 33, .together = true}) == expected_) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(models, same_bits,
                         testing::Values(same_bits_case{"llama", line_type::f32, activation_mode::fine},
                                         same_bits_case{"llama", line_type::f16, activation_mode::fine},
                                         same_bits_case{"llama3-rope", line_type::f16, activation_mode::fine},
                                         same_bits_case{"llama-q8_0", line_type::f16, activation_mode::fine},
                                         same_bits_case{"llama-q8_0", line_type::f32, activation_mode::fast},
                                         same_bits_case{"llama-q4_0", line_type::f32, activation_mode::fine},
                                         same_bits_case{"llama-q4_0", line_type::f16, activation_mode::fast},
                                         same_bits_case{"llama-q4_k", line_type::f16, activation_mode::fine},
                                         same_bits_case{"llama-q6_k", line_type::f32, activation_mode::fast},
                                         same_bits_case{"gemma2", line_type::f16, activation_mode::fine},
                                         same_bits_case{"gemma3", line_type::f32, activation_mode::fine}));

/// Long prefixes, of which a backend may gather parts on several threads.
TEST(same_bits_far, one_row_at_a_time_or_many) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const test::scratch_folder folder;
  const auto file = test::must(
      test::make_tiny_llama({.layers = 1, .heads = 6, .kv_heads = 2, .head_dim = 16, .context = 2048, .ff = {48}})
          .open(folder));
  std::vector<test::tokens> prompts(3);
  for (std::size_t n = 0; n < prompts.size(); ++n)
    for (std::size_t i = 0; i < 1330 - 270 * n; ++i) prompts[n].push_back(static_cast<token_id>(random() % 50));
  constexpr std::int32_t from = 760;
  const auto load = [&](int threads) {
    return test::must(load_cpu_backend(file, {.threads = threads, .max_rows = 1500, .page_noise = random()}));
  };
  const auto expected = test::all_logits(*load(1), prompts, {.from = from});
  struct {
    int threads;
    std::int32_t chunk;
    bool together;
  } const cases[] = {{1, 400, true}, {3, 0, false}, {3, 3, true}, {2, 300, false}};
  for (const auto& c : cases) {
    const test::drive_options how{.seed = static_cast<unsigned>(random()),
                                  .max_chunk = c.chunk,
                                  .together = c.together,
                                  .shuffle_pages = true,
                                  .from = from};
    EXPECT_TRUE(test::all_logits(*load(c.threads), prompts, how) == expected)
        << c.threads << " threads, chunks up to " << c.chunk << (c.together ? ", together" : ", alone");
  }
}

}  // namespace
}  // namespace kvern::gpu::cpu
