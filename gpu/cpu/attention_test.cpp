#include "gpu/cpu/attention.hpp"

#include "gpu/cpu/attention_history.hpp"

namespace kvern::gpu::cpu {
namespace {

using test::arrangement;
using test::attention_case;
using test::history;
using test::wish;

template <class T>
T one_of(test::random_source& random, const std::vector<T>& all) {
  return all[static_cast<std::size_t>(random.integer(0, static_cast<int>(all.size()) - 1))];
}

attention_case random_case(test::random_source& random) {
  const int kv_heads = random.integer(1, 4);
  attention_case c{.heads = kv_heads * random.integer(1, 5), .kv_heads = kv_heads, .head_dim = 0};
  c.head_dim = random.integer(0, 1) != 0 ? one_of<int>(random, {16, 32, 64, 80, 96, 128}) : random.integer(1, 130);
  c.type = one_of<line_type>(random, {line_type::f32, line_type::f16, line_type::bf16, line_type::int8});
  c.span = one_of<scale_span>(random, {scale_span::group, scale_span::head, scale_span::line});
  c.window = one_of<std::int32_t>(random, {0, 0, 1, 5, 31, 32, 33, 50, 100});
  c.rotate = one_of<rotation>(random, {{0, 0}, {0, 0}, {0, 1}, {1, 1}, {1, 2}, {2, 1}, {0, 3}});
  c.cap = one_of<float>(random, {0.0F, 0.0F, 0.7F, 50.0F});
  return c;
}

/// One scale for the line of all heads cannot be had where heads lie apart.
int random_shards(const attention_case& c, test::random_source& random) {
  return c.type == line_type::int8 && c.span == scale_span::line ? 1 : random.integer(1, c.kv_heads);
}

std::vector<attention_case> every_type() {
  std::vector<attention_case> all{
      {9, 3, 64, line_type::f16},  {4, 4, 32, line_type::f32},  {6, 1, 80, line_type::f16},
      {2, 1, 20, line_type::f32},  {3, 3, 6, line_type::f16},   {2, 2, 256, line_type::f32},
      {9, 3, 64, line_type::bf16}, {5, 1, 33, line_type::bf16}, {4, 2, 256, line_type::f16, {}, 48, {}, 50}};
  for (const scale_span span : {scale_span::group, scale_span::head, scale_span::line}) {
    all.push_back({9, 3, 64, line_type::int8, span});
    all.push_back({6, 2, 41, line_type::int8, span, 40});
    all.push_back({4, 1, 256, line_type::int8, span, 0, {1, 1}, 2});
  }
  return all;
}

/// Rows [begin, end) of sequence 0, computed in one step.
void expect_exact(history& h, const attention_case& c, int begin, int end, const std::vector<float>& out) {
  std::size_t at = 0;
  for (int p = begin; p < end; ++p) {
    for (int head = 0; head < c.heads; ++head) {
      const history::exact_result exact = h.exact(0, p, head);
      // A score errs by a rounding for each dimension, each scale, log2(e) and the scaling of q by it, 6 more of its
      // size in the cap; a weight relatively by as much, twice (it is in the sum as well); then exp, the sums over
      // keys, V's scale and the division.
      const int steps = c.head_dim + 2 * ((c.head_dim + 31) / 32) + 12;
      const double tolerance = (2 * steps * exact.peak + 2 * exact.keys + 24) * 0x1p-24;
      for (std::size_t d = 0; d < static_cast<std::size_t>(c.head_dim); ++d, ++at)
        ASSERT_NEAR(out[at], exact.out[d], exact.size[d] * tolerance) << "position " << p << " head " << head;
    }
  }
}

TEST(attention, matches_double_precision) {
  test::random_source random;
  SCOPED_TRACE(testing::Message() << "seed " << random.seed());
  thread_team team(2);
  std::vector<attention_case> cases = every_type();
  for (int n = 0; n < 40; ++n) cases.push_back(random_case(random));
  for (const attention_case& c : cases) {
    SCOPED_TRACE(testing::Message() << c);
    const int length = random.integer(1, 180), begin = random.integer(std::max(0, length - 40), length - 1);
    history h(c, {length}, random);
    const arrangement how{.kernels = best_isa(),
                          .eager = random.integer(0, 1) != 0,
                          .shards = random_shards(c, random),
                          .tables = 3,
                          .table = random.integer(0, 2)};
    expect_exact(h, c, begin, length, h.attend({{0, begin, length}}, how, team));
    if (HasFatalFailure()) return;
  }
}

/// Rows [begin, end) of a sequence by the scalar reference in one chunk on one thread: what all others equal. Some rows
/// are computed alone as well, with all their keys but their own in pages.
std::vector<float> reference_of(history& h, int sequence, int begin, int end, test::random_source& random) {
  thread_team one(1);
  std::vector<float> all = h.attend({{sequence, begin, end}}, {}, one);
  for (int n = 0; n < 5; ++n) {
    const int p = n == 0 ? end - 1 : random.integer(begin, end - 1);
    const auto at = all.begin() + (p - begin) * static_cast<std::ptrdiff_t>(h.query());
    test::expect_same_bits(h.attend({{sequence, p, p + 1}}, {}, one),
                           {at, at + static_cast<std::ptrdiff_t>(h.query())});
  }
  return all;
}

TEST(attention, one_result_for_every_arrangement) {
  test::random_source random;
  SCOPED_TRACE(testing::Message() << "seed " << random.seed());
  thread_team one(1), three(3);
  std::vector<attention_case> cases = every_type();
  for (int n = 0; n < 12; ++n) cases.push_back(random_case(random));
  for (const attention_case& c : cases) {
    const std::vector<int> lengths{1, 40, random.integer(65, 100)};
    history h(c, lengths, random);
    std::vector<std::vector<float>> reference;
    for (int n = 0; n < 3; ++n)
      reference.push_back(reference_of(h, n, 0, lengths[static_cast<std::size_t>(n)], random));
    for (const isa i : test::available()) {
      for (int round = 0; round < (i == isa::scalar ? 1 : 4); ++round) {
        std::vector<wish> wishes;
        std::vector<float> expected;
        for (int n = 0; n < 3; ++n) {
          const int length = lengths[static_cast<std::size_t>(n)];
          const int end = round == 0 && i != isa::scalar ? length : random.integer(1, length);
          const int begin = round == 0 && i != isa::scalar ? 0 : random.integer(std::max(0, end - 30), end - 1);
          wishes.push_back({n, begin, end});
          const auto& r = reference[static_cast<std::size_t>(n)];
          expected.insert(expected.end(), r.begin() + begin * static_cast<std::ptrdiff_t>(h.query()),
                          r.begin() + end * static_cast<std::ptrdiff_t>(h.query()));
        }
        const arrangement how{.kernels = i,
                              .eager = random.integer(0, 2) == 0,
                              .shards = random_shards(c, random),
                              .tables = 2,
                              .table = random.integer(0, 1)};
        SCOPED_TRACE(testing::Message() << c << "; " << to_string(i) << " round " << round << " shards " << how.shards
                                        << (how.eager ? " eager" : ""));
        test::expect_same_bits(h.attend(wishes, how, round % 2 != 0 ? three : one), expected);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(attention, every_head_dim_works_in_every_type) {
  test::random_source random;
  SCOPED_TRACE(testing::Message() << "seed " << random.seed());
  thread_team team(1);
  for (int dim = 1; dim <= 256; ++dim) {
    attention_case c = random_case(random);
    c.heads = 4;
    c.kv_heads = 2;
    c.head_dim = dim;
    SCOPED_TRACE(testing::Message() << c);
    history h(c, {45}, random);
    const auto out = h.attend({{0, 42, 45}}, {}, team);
    expect_exact(h, c, 42, 45, out);
    for (const isa i : test::available()) test::expect_same_bits(h.attend({{0, 42, 45}}, {.kernels = i}, team), out);
    if (HasFatalFailure()) return;
  }
}

TEST(attention, long_prefixes_are_the_same_whole_and_in_segments) {
  test::random_source random;
  SCOPED_TRACE(testing::Message() << "seed " << random.seed());
  thread_team one(1), two(2), many(16);
  for (const attention_case& c : {attention_case{6, 2, 16, line_type::f16},
                                  {6, 2, 16, line_type::f16, {}, 600},
                                  {4, 2, 40, line_type::int8, scale_span::group, 0, {1, 20}},
                                  {4, 2, 16, line_type::bf16, {}, 990, {2, 18}, 5},
                                  {4, 2, 16, line_type::f32, {}, 0, {16, 2}}}) {
    history h(c, {1060}, random);
    const auto reference = reference_of(h, 0, 1000, 1060, random);
    const auto tail = [&](int rows) {
      return std::vector<float>(reference.end() - static_cast<std::ptrdiff_t>(h.query()) * rows, reference.end());
    };
    for (const isa i : test::available()) {
      SCOPED_TRACE(testing::Message() << c << "; " << to_string(i));
      const wish chunk{0, 1000, 1060}, half{0, 1030, 1060}, few{0, 1050, 1060}, last{0, 1059, 1060};
      test::expect_same_bits(h.attend({chunk}, {.kernels = i}, two), reference);   // tiles walk all segments
      test::expect_same_bits(h.attend({chunk}, {.kernels = i}, many), reference);  // in segments, across 1024
      test::expect_same_bits(h.attend({half}, {.kernels = i, .eager = true, .shards = 2}, many), tail(30));
      test::expect_same_bits(h.attend({last}, {.kernels = i}, one), tail(1));
      test::expect_same_bits(h.attend({few}, {.kernels = i, .shards = 2}, two), tail(10));
      if (HasFatalFailure()) return;
    }
  }
}

/// Nothing is read behind the last table either, where the round that is begun next has fewer blocks than a whole one.
TEST(attention, eager_rows_use_the_blocks_that_their_table_has) {
  test::random_source random;
  SCOPED_TRACE(testing::Message() << "seed " << random.seed());
  thread_team one(1);
  for (const attention_case& c :
       {attention_case{2, 1, 16, line_type::f16}, {2, 1, 16, line_type::int8, scale_span::group, 90}}) {
    for (const int length : {129, 161, 193, 225}) {
      SCOPED_TRACE(testing::Message() << c << "; " << length << " positions");
      history h(c, {length}, random);
      for (const int begin : {0, length - 1}) {
        const std::vector<float> lazy = h.attend({{0, begin, length}}, {}, one);
        expect_exact(h, c, begin, length, lazy);
        for (const isa i : test::available()) {
          const arrangement last{.kernels = i, .eager = true, .tables = 3, .table = 2};
          test::expect_same_bits(h.attend({{0, begin, length}}, last, one), lazy);
        }
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(attention, long_and_short_rows_of_a_step_are_what_each_is_alone) {
  test::random_source random;
  SCOPED_TRACE(testing::Message() << "seed " << random.seed());
  thread_team one(1);
  for (const attention_case& c : {attention_case{6, 2, 16, line_type::f16},
                                  {8, 4, 64, line_type::bf16, {}, 300},
                                  {3, 3, 40, line_type::int8, scale_span::head},
                                  {60, 1, 16, line_type::f32, {}, 0, {1, 8}}}) {
    history h(c, {700, 300, 33, 20, 5, 1}, random);
    const std::vector<wish> wishes{{0, 699, 700}, {1, 240, 300}, {2, 32, 33}, {3, 19, 20}, {4, 0, 5}, {5, 0, 1}};
    std::vector<float> expected;
    for (const wish& w : wishes) {
      const std::vector<float> alone = h.attend({w}, {}, one);
      expected.insert(expected.end(), alone.begin(), alone.end());
    }
    for (const isa i : test::available()) {
      for (const int threads : {1, 2, 5, 24}) {
        SCOPED_TRACE(testing::Message() << c << "; " << to_string(i) << ", " << threads << " threads");
        thread_team team(threads);
        test::expect_same_bits(h.attend(wishes, {.kernels = i, .shards = random_shards(c, random)}, team), expected);
        if (HasFatalFailure()) return;
      }
    }
  }
}

/// A broken row breaks those that see it and changes no bit of the others, earlier ones as well as ones whose window
/// has passed it, in the same tiles.
TEST(attention, a_row_that_is_not_finite_harms_those_that_see_it_alone) {
  test::random_source random;
  SCOPED_TRACE(testing::Message() << "seed " << random.seed());
  thread_team team(2);
  for (attention_case c : every_type()) {
    if (c.type == line_type::int8) continue;  // NaN becomes 0
    for (const std::int32_t window : {0, 33}) {
      c.window = window;
      SCOPED_TRACE(testing::Message() << c);
      history h(c, {120}, random);
      for (const isa i : test::available()) {
        history broken = h;
        const auto before = h.attend({{0, 70, 120}}, {.kernels = i}, team);
        broken.spoil(0, 77);
        const auto after = broken.attend({{0, 70, 120}}, {.kernels = i}, team);
        for (int p = 70; p < 120; ++p) {
          for (std::size_t e = 0; e < h.query(); ++e) {
            const std::size_t at = static_cast<std::size_t>(p - 70) * h.query() + e;
            if (h.sees(p, 77)) {
              ASSERT_TRUE(std::isnan(after[at])) << p;
            } else {
              ASSERT_EQ(test::bits_of(after[at]), test::bits_of(before[at])) << p;
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvern::gpu::cpu
