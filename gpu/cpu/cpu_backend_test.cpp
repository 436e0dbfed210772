#include "gpu/cpu/cpu_backend.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "gpu/cpu/test_drive.hpp"
#include "gpu/cpu/tiny_model.hpp"

namespace kvern::gpu::cpu {
namespace {

class cpu_backend_test : public testing::Test {
 protected:
  std::unique_ptr<backend> load(const cpu_options& options = {.threads = 2, .max_rows = 16}) {
    return test::must(load_cpu_backend(file_, options));
  }

  std::string code(const cpu_options& options) {
    const auto loaded = load_cpu_backend(file_, options);
    return loaded ? "" : loaded.error().code;
  }

  /// Rows at positions committed .. committed + count - 1 of one sequence on pages {3, 1}.
  static step rows(std::int32_t committed, std::int32_t count) {
    step s;
    s.sequences = {{.pages = {3, 1}, .committed = committed}};
    for (std::int32_t r = 0; r < count; ++r)
      s.rows.push_back({.token = (committed + r) % 50, .position = committed + r, .sequence = 0, .logits = true});
    return s;
  }

  static std::vector<float> copy(std::span<const float> x) { return {x.begin(), x.end()}; }

  test::scratch_folder folder_;
  test::tiny_model model_ = test::make_tiny_llama();
  std::shared_ptr<const gguf_file> file_ = test::must(model_.open(folder_));
};

TEST_F(cpu_backend_test, info_says_what_was_made) {
  const auto b = load({.threads = 1, .kv_memory = 10 * 2 * 2 * 16 * 2 * 32 + 1, .max_rows = 16});
  EXPECT_EQ(b->info().vocab, 50);
  EXPECT_EQ(b->info().context, 128);
  EXPECT_EQ(b->info().max_rows, 16);
  EXPECT_EQ(b->info().page_bytes, 2u * 2 * 16 * 2 * 32);  // layers, K and V, elements, f16, lines
  EXPECT_EQ(b->info().pages, 10);
  EXPECT_GT(b->info().weight_bytes, 0u);
  EXPECT_EQ(b->info().kernels, to_string(best_isa()));
  EXPECT_EQ(b->info().max_position, 1 << 24);
  EXPECT_EQ(b->info().windows, std::vector<std::int32_t>{0});
  EXPECT_EQ(b->info().page_layers, 2);
}

TEST_F(cpu_backend_test, slots_are_whole) {
  constexpr std::uint64_t page = 2 * 2 * 16 * 2 * 32;
  for (const cache_layout layout : {cache_layout::left, cache_layout::ring}) {
    const auto b = load({.threads = 1, .kv_memory = 11 * page, .cache = {.layout = layout}, .max_rows = 16});
    EXPECT_EQ(b->info().pages, 8);  // two of 128 positions
  }
}

TEST_F(cpu_backend_test, options_out_of_range_are_refused) {
  EXPECT_EQ(code({.threads = -1}), "invalid_option");
  EXPECT_EQ(code({.threads = 1'000'000}), "invalid_option");
  EXPECT_EQ(code({.context = -1}), "invalid_option");
  EXPECT_EQ(code({.max_rows = 0}), "invalid_option");
  EXPECT_EQ(code({.max_rows = std::numeric_limits<std::int32_t>::max()}), "invalid_option");
  EXPECT_EQ(code({.context = 129}), "context_too_large");
  EXPECT_EQ(code({.context = std::numeric_limits<std::int32_t>::max()}), "context_too_large");
  EXPECT_EQ(code({.kv_memory = 1}), "kv_memory_too_small");
  EXPECT_EQ(code({.cache = {.shards = 0}}), "invalid_cache_options");
  EXPECT_EQ(code({.cache = {.shards = 3}}), "invalid_cache_options");
  EXPECT_EQ(code({.cache = {.type = line_type::int8, .scale = scale_span::line, .shards = 2}}),
            "invalid_cache_options");
  EXPECT_EQ(code({.threads = 1, .context = 128}), "");
}

TEST_F(cpu_backend_test, the_context_is_the_models_up_to_8192) {
  EXPECT_EQ(load()->info().context, 128);
  model_.keys["llama.context_length"] = std::uint32_t{1 << 20};
  file_ = test::must(model_.open(folder_));
  EXPECT_EQ(load()->info().context, 8192);
  EXPECT_EQ(load({.threads = 1, .context = 10'000})->info().context, 10'000);
}

TEST_F(cpu_backend_test, other_models_are_refused_by_name) {
  model_.keys["general.architecture"] = std::string("rwkv7");
  const auto loaded = load_cpu_backend(test::must(model_.open(folder_)), {});
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, "model_unsupported");
  EXPECT_NE(loaded.error().message.find("rwkv7"), std::string::npos);
}

TEST_F(cpu_backend_test, an_invalid_step_stages_nothing) {
  const auto b = load();
  test::must(b->forward(rows(0, 4)));
  for (const auto& change : std::vector<std::function<void(step&)>>{
           [](step& s) { s.rows[2].token = 50; },
           [](step& s) { s.rows[2].token = -1; },
           [](step& s) { s.rows[1].position = 7; },
           [](step& s) { s.rows[0].sequence = 1; },
           [](step& s) { s.sequences[0].pages = {std::numeric_limits<page_id>::max()}; },
           [](step& s) { s.sequences[0].pages.clear(); },
           [](step& s) { s.rows.clear(); },
           [](step& s) { s.rows.resize(17, s.rows.back()); },
       }) {
    step s = rows(0, 4);
    change(s);
    const auto done = b->forward(s);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, "invalid_step");
    EXPECT_TRUE(b->logits(0).empty());
    const std::int32_t first = 0;
    EXPECT_FALSE(b->finalize({&first, 1}));
  }
}

TEST_F(cpu_backend_test, finalize_takes_ascending_staged_rows_once) {
  const auto b = load();
  const auto finalize = [&](std::vector<std::int32_t> rows) { return b->finalize(rows).has_value(); };
  EXPECT_TRUE(finalize({}));
  EXPECT_FALSE(finalize({0}));
  test::must(b->forward(rows(0, 4)));
  EXPECT_FALSE(finalize({1, 0}));
  EXPECT_FALSE(finalize({0, 0}));
  EXPECT_FALSE(finalize({-1}));
  EXPECT_FALSE(finalize({0, 4}));
  EXPECT_TRUE(finalize({0, 1}));
  EXPECT_FALSE(finalize({2}));
}

TEST_F(cpu_backend_test, committed_lines_are_what_the_next_step_reads) {
  const auto b = load({.threads = 2, .max_rows = 64, .page_noise = 3});
  test::must(b->forward(rows(0, 40)));
  const auto expected = copy(b->logits(39));
  test::must(b->forward(rows(0, 39)));
  std::vector<std::int32_t> all(39);
  for (std::int32_t r = 0; r < 39; ++r) all[static_cast<std::size_t>(r)] = r;
  test::must(b->finalize(all));
  test::must(b->forward(rows(39, 1)));
  EXPECT_EQ(copy(b->logits(0)), expected);
  // Dropped: the page still does not hold position 39.
  test::must(b->finalize({}));
  test::must(b->forward(rows(39, 1)));
  EXPECT_EQ(copy(b->logits(0)), expected);
}

TEST_F(cpu_backend_test, lines_read_are_lines_written_in_any_layout) {
  const auto plain = load({.threads = 1, .max_rows = 64});
  test::must(plain->forward(rows(0, 40)));
  std::vector<std::int32_t> all(39);
  std::iota(all.begin(), all.end(), 0);
  test::must(plain->finalize(all));
  std::vector<std::byte> full(plain->info().page_bytes), begun(plain->info().page_bytes / page_lines * 7);
  test::must(plain->read(3, page_lines, full));
  test::must(plain->read(1, 7, begun));
  test::must(plain->forward(rows(39, 1)));
  const auto expected = copy(plain->logits(0));
  const auto b = load({.threads = 2,
                       .cache = {.stacked = false, .stage_stacked = false, .shards = 2},
                       .max_rows = 64,
                       .page_noise = 5});
  test::must(b->write(0, page_lines, full));
  test::must(b->write(2, 7, begun));
  test::must(b->copy(std::vector<page_copy>{{0, 3, page_lines}, {2, 1, 7}}));
  test::must(b->clear(std::vector<page_id>{0, 2}));
  test::must(b->forward(rows(39, 1)));
  EXPECT_EQ(copy(b->logits(0)), expected);
}

TEST_F(cpu_backend_test, cleared_pages_hold_zeros) {
  const auto b = load({.threads = 2, .max_rows = 64, .page_noise = 3});
  EXPECT_EQ(b->clear(std::vector<page_id>{b->info().pages}).error().code, "page_out_of_range");
  // Noise holds NaNs: read as if it were committed, it spoils the logits. Zeros do not.
  test::must(b->forward(rows(32, 1)));
  EXPECT_TRUE(std::isnan(b->logits(0)[0]));
  test::must(b->clear(std::vector<page_id>{3}));
  test::must(b->forward(rows(32, 1)));
  EXPECT_TRUE(std::all_of(b->logits(0).begin(), b->logits(0).end(), [](float x) { return std::isfinite(x); }));
}

TEST_F(cpu_backend_test, progress_is_reported_while_loading) {
  std::vector<double> seen;
  load({.threads = 1, .max_rows = 4, .progress = [&](double share) { seen.push_back(share); }});
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.back(), 1);
}

/// The ways a cache can lie in memory and be written, each with some threads, chunks and pages: none changes a bit.
class any_cache : public testing::TestWithParam<cache_options> {};

TEST_P(any_cache, logits_are_those_of_the_default_of_its_type) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const test::scratch_folder folder;
  // Five layers with a window and one without: six tables.
  const auto file = test::must(test::make_tiny_model({.layers = 6,
                                                      .heads = 6,
                                                      .kv_heads = 3,
                                                      .head_dim = 10,
                                                      .ff = {48, 48, 48, 48, 48, 48},
                                                      .architecture = "gemma3",
                                                      .window = 24})
                                   .open(folder));
  std::vector<test::tokens> prompts(4);
  for (std::size_t n = 0; n < prompts.size(); ++n)
    for (std::size_t i = 0; i < 90 - 25 * n; ++i) prompts[n].push_back(static_cast<token_id>(random() % 50));
  const auto make = [&](const cache_options& cache, int threads) {
    return test::must(
        load_cpu_backend(file, {.threads = threads, .cache = cache, .max_rows = 100, .page_noise = random()}));
  };
  const cache_options& type = GetParam();
  const auto expected = test::all_logits(*make({.type = type.type, .scale = type.scale}, 1), prompts, {});
  for (const cache_update update : {cache_update::lazy, cache_update::eager})
    for (const bool stacked : {true, false})
      for (const bool stage_stacked : {true, false})
        for (const std::int32_t shards : {1, 2, 3}) {
          cache_options cache = type;
          cache.update = update;
          cache.stacked = stacked;
          cache.stage_stacked = stage_stacked;
          cache.shards = shards;
          if (!validate(cache, 3)) continue;
          const test::drive_options how{.seed = static_cast<unsigned>(random()),
                                        .max_chunk = static_cast<std::int32_t>(1 + random() % 40),
                                        .together = random() % 2 == 0,
                                        .shuffle_pages = true,
                                        .drop_lines = true};
          const auto b = make(cache, static_cast<int>(1 + random() % 3));
          EXPECT_TRUE(test::all_logits(*b, prompts, how) == expected)
              << to_string(update) << ", stacked " << stacked << ", staged stacked " << stage_stacked << ", shards "
              << shards;
        }
}

INSTANTIATE_TEST_SUITE_P(types, any_cache,
                         testing::Values(cache_options{.type = line_type::f32}, cache_options{.type = line_type::f16},
                                         cache_options{.type = line_type::bf16}, cache_options{.type = line_type::int8},
                                         cache_options{.type = line_type::int8, .scale = scale_span::head},
                                         cache_options{.type = line_type::int8, .scale = scale_span::line}),
                         [](const auto& i) {
                           const bool scaled = i.param.type == line_type::int8;
                           return std::string(to_string(i.param.type)) +
                                  (scaled ? "_" + std::string(to_string(i.param.scale)) : "");
                         });

}  // namespace
}  // namespace kvern::gpu::cpu
