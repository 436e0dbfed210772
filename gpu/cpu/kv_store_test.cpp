#include "gpu/cpu/kv_store.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "gpu/cache/step_check.hpp"
#include "gpu/cpu/test_drive.hpp"

namespace kvern::gpu::cpu {
namespace {

constexpr line_type types[] = {line_type::f32, line_type::f16, line_type::bf16, line_type::int8};

constexpr std::int32_t heads = 6, kv_heads = 3, head_dim = 10, layers = 6, positions = 80, pages = 40, max_rows = 32;
constexpr std::int32_t far = 4096;  // a window that no position leaves

using floats = std::vector<float>;

std::vector<std::int32_t> accept(std::int32_t rows) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(rows));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Two sequences of random q, k and v, in a store of any options.
class sequences {
 public:
  explicit sequences(unsigned seed) : random_(seed) {
    std::normal_distribution<float> normal;
    for (auto* values : {&q_, &k_, &v_}) {
      values->resize(static_cast<std::size_t>(2 * layers * positions * heads * head_dim));
      for (float& x : *values) x = normal(random_);
    }
  }

  kv_store make(const cache_options& options, thread_team& team) {
    return test::must(kv_store::create({.tables = make_page_tables(windows_),
                                        .kv_heads = kv_heads,
                                        .head_dim = head_dim,
                                        .options = options,
                                        .pages = pages,
                                        .max_rows = max_rows,
                                        .kernels = best_isa(),
                                        .noise_seed = random_()},
                                       team));
  }

  /// Attention of all positions, [sequence][layer][position][head][head_dim], in steps of random size whose tails are
  /// dropped at random; `flushes` counts the steps that committed something.
  floats attend(kv_store& store, std::uint64_t& flushes) {
    const page_tables& tables = store.tables();
    step_check check({.vocab = 1,
                      .context = positions,
                      .max_position = positions,
                      .pages = pages,
                      .max_rows = max_rows,
                      .windows = tables.windows});
    std::vector<page_id> ids(pages);
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), random_);
    const auto of_each = static_cast<std::ptrdiff_t>(tables.windows.size()) * 3;
    std::vector<step_sequence> own(2);
    for (std::ptrdiff_t n = 0; n < 2; ++n)
      own[static_cast<std::size_t>(n)].pages.assign(ids.begin() + n * of_each, ids.begin() + (n + 1) * of_each);
    floats all(q_.size());
    flushes = 0;
    while (own[0].committed < positions || own[1].committed < positions) {
      step s;
      s.sequences = own;
      std::vector<std::int32_t> accepted;
      for (std::int32_t n = 0; n < 2; ++n) {
        std::int32_t& committed = own[static_cast<std::size_t>(n)].committed;
        const std::int32_t rows = std::min(positions - committed, static_cast<std::int32_t>(random_() % 17));
        const auto kept = static_cast<std::int32_t>(random_() % static_cast<unsigned>(rows + 1));
        for (std::int32_t r = 0; r < rows; ++r) {
          if (r < kept) accepted.push_back(static_cast<std::int32_t>(s.rows.size()));
          s.rows.push_back({.position = committed + r, .sequence = n});
        }
        committed += kept;
      }
      if (s.rows.empty()) continue;
      std::vector<std::int64_t> lines;
      test::must(check.check(s, lines));
      store.begin(lines);
      for (std::int32_t layer = 0; layer < layers; ++layer) compute(store, s, layer, all);
      test::must(store.finalize(accepted));
      flushes += accepted.empty() ? 0 : 1;
      steps_ += 1;
    }
    return all;
  }

  std::uint64_t steps() const { return steps_; }
  std::mt19937& random() { return random_; }

 private:
  static std::ptrdiff_t at(const step_row& row, std::int32_t layer, std::int32_t width) {
    return ((std::ptrdiff_t{row.sequence} * layers + layer) * positions + row.position) * width;
  }

  void compute(kv_store& store, const step& s, std::int32_t layer, floats& all) {
    constexpr std::int32_t width = heads * head_dim, kv_width = kv_heads * head_dim;
    floats q, out(s.rows.size() * static_cast<std::size_t>(width));
    for (std::size_t r = 0; r < s.rows.size(); ++r) {
      const auto from = q_.begin() + at(s.rows[r], layer, width);
      q.insert(q.end(), from, from + width);
      const std::ptrdiff_t kv = at(s.rows[r], layer, kv_width);
      store.stage(layer, static_cast<std::int64_t>(r), k_.data() + kv, v_.data() + kv);
    }
    store.attend(layer, s, {.heads = heads, .scale = 0.3F, .window = windows_[static_cast<std::size_t>(layer)]},
                 q.data(), out.data());
    for (std::size_t r = 0; r < s.rows.size(); ++r)
      std::copy_n(out.begin() + static_cast<std::ptrdiff_t>(r) * width, width,
                  all.begin() + at(s.rows[r], layer, width));
  }

  std::mt19937 random_;
  std::vector<std::int32_t> windows_ = {far, far, 0, far, far, 0};  // pages of two layers, three tables
  floats q_, k_, v_;
  std::uint64_t steps_ = 0;
};

class kv_store_test : public testing::TestWithParam<line_type> {
 protected:
  const unsigned seed_ = std::random_device{}();
  testing::ScopedTrace trace_{__FILE__, __LINE__, testing::Message() << "seed " << seed_};
  sequences sequences_{seed_};
};

TEST_P(kv_store_test, options_change_no_bit_and_flushes_are_as_few_as_they_say) {
  thread_team one(1), three(3);
  std::uint64_t committing = 0;
  kv_store plain = sequences_.make({.type = GetParam()}, one);
  const floats expected = sequences_.attend(plain, committing);
  for (const cache_update update : {cache_update::lazy, cache_update::eager})
    for (const bool stacked : {true, false})
      for (const bool stage_stacked : {true, false})
        for (const std::int32_t shards : {1, 2, 3}) {
          const cache_options options{.update = update,
                                      .stacked = stacked,
                                      .stage_stacked = stage_stacked,
                                      .type = GetParam(),
                                      .shards = shards};
          SCOPED_TRACE(testing::Message() << to_string(update) << ", stacked " << stacked << ", staged stacked "
                                          << stage_stacked << ", shards " << shards);
          kv_store store = sequences_.make(options, stacked && stage_stacked && shards == 3 ? three : one);
          const std::uint64_t steps_before = sequences_.steps();
          EXPECT_TRUE(sequences_.attend(store, committing) == expected);
          const std::uint64_t steps = sequences_.steps() - steps_before;
          EXPECT_EQ(store.flushes(), update == cache_update::eager ? steps * layers
                                     : stage_stacked               ? committing
                                                                   : committing * layers);
        }
}

TEST_P(kv_store_test, what_is_committed_is_the_same_in_any_layout) {
  thread_team team(1);
  std::vector<std::byte> expected;
  for (int round = 0; round < 8; ++round) {
    cache_options options{.type = GetParam()};
    if (round > 0) {
      options.update = sequences_.random()() % 2 == 0 ? cache_update::lazy : cache_update::eager;
      options.stacked = sequences_.random()() % 2 == 0;
      options.stage_stacked = sequences_.random()() % 2 == 0;
      options.shards = static_cast<std::int32_t>(1 + sequences_.random()() % 3);
    }
    kv_store store = sequences_.make(options, team);
    step s;
    s.sequences = {{.pages = {7, 3, 5}}};
    for (std::int32_t p = 0; p < 20; ++p) s.rows.push_back({.position = p});
    std::vector<std::int64_t> lines;
    for (std::int64_t p = 0; p < 20; ++p)
      for (const std::int64_t page : {7, 3, 5}) lines.push_back(page * page_lines + p);
    store.begin(lines);
    floats q(20 * heads * head_dim, 0.5F), out(q.size());
    for (std::int32_t layer = 0; layer < layers; ++layer) {
      for (std::int64_t row = 0; row < 20; ++row) {
        floats k(kv_heads * head_dim), v(k.size());
        for (std::size_t i = 0; i < k.size(); ++i) {
          k[i] = static_cast<float>(layer * 100 + row) + static_cast<float>(i) / 64;
          v[i] = -k[i];
        }
        store.stage(layer, row, k.data(), v.data());
      }
      store.attend(layer, s, {.heads = heads}, q.data(), out.data());
    }
    test::must(store.finalize(accept(20)));
    std::vector<std::byte> got;
    for (const page_id page : {7, 3, 5}) {
      std::vector<std::byte> bytes(20 * store.shape().line_bytes());
      test::must(store.read(page, 20, bytes));
      got.insert(got.end(), bytes.begin(), bytes.end());
    }
    if (round == 0) expected = got;
    EXPECT_EQ(got, expected);
  }
}

TEST_P(kv_store_test, finalize_takes_ascending_staged_rows_once) {
  thread_team team(1);
  for (const cache_update update : {cache_update::lazy, cache_update::eager}) {
    kv_store store = sequences_.make({.update = update, .type = GetParam()}, team);
    const auto finalize = [&](std::vector<std::int32_t> rows) { return store.finalize(rows).has_value(); };
    EXPECT_TRUE(finalize({}));
    EXPECT_FALSE(finalize({0}));
    const std::vector<std::int64_t> lines(4 * store.tables().windows.size());
    store.begin(lines);
    EXPECT_FALSE(finalize({1, 0}));
    EXPECT_FALSE(finalize({0, 0}));
    EXPECT_FALSE(finalize({-1}));
    EXPECT_FALSE(finalize({0, 4}));
    EXPECT_TRUE(finalize({0, 1}));
    EXPECT_FALSE(finalize({2}));
    store.begin(lines);
    store.drop();
    EXPECT_FALSE(finalize({0}));
  }
}

INSTANTIATE_TEST_SUITE_P(types, kv_store_test, testing::ValuesIn(types),
                         [](const auto& i) { return std::string(to_string(i.param)); });

TEST(kv_store, what_cannot_be_is_refused) {
  thread_team team(1);
  const auto code = [&](const cache_options& options, std::int32_t page_count) {
    const auto made = kv_store::create({.tables = make_page_tables(std::vector<std::int32_t>(2, 0)),
                                        .kv_heads = 2,
                                        .head_dim = 4,
                                        .options = options,
                                        .pages = page_count,
                                        .max_rows = 4},
                                       team);
    return made ? "" : made.error().code;
  };
  EXPECT_EQ(code({}, 3), "");
  EXPECT_EQ(code({.shards = 3}, 3), "invalid_cache_options");
  EXPECT_EQ(code({.type = line_type::int8, .scale = scale_span::line, .shards = 2}, 3), "invalid_cache_options");
  EXPECT_EQ(code({}, 0), "out_of_memory");
}

}  // namespace
}  // namespace kvern::gpu::cpu
