#include "gpu/cpu/attention.hpp"

#include <algorithm>
#include <numeric>

#include "gpu/cpu/kernel_test_data.hpp"
#include "gpu/cpu/ops.hpp"

namespace kvern::gpu::cpu {
namespace {

struct shape {
  int heads, kv_heads, head_dim;
  line_type type;
};

/// K, V and queries of whole sequences; computes any rows of them with any share of the keys in pages.
class history {
 public:
  history(const shape& s, const std::vector<int>& lengths, test::random_source& random) : shape_(s), random_(random) {
    for (const int length : lengths) {
      const auto n = static_cast<std::size_t>(length);
      sequences_.push_back(
          {round(random.normal(n * line())), round(random.normal(n * line())), random.normal(n * query())});
    }
  }

  std::size_t line() const { return static_cast<std::size_t>(shape_.kv_heads * shape_.head_dim); }
  std::size_t query() const { return static_cast<std::size_t>(shape_.heads * shape_.head_dim); }

  /// Rows [committed, end) of some sequences in one step. Every line that no row may read is NaN.
  struct wish {
    int sequence, committed, end;
  };

  std::vector<float> attend(const std::vector<wish>& wishes, isa i, thread_team& team) {
    step s;
    std::vector<float> q;
    int pages = 0;
    for (const wish& w : wishes) pages += (w.end + page_lines - 1) / page_lines;
    std::vector<page_id> order(static_cast<std::size_t>(pages + 3));
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t n = order.size(); n > 1; --n)
      std::swap(order[n - 1], order[static_cast<std::size_t>(random_.integer(0, static_cast<int>(n) - 1))]);
    // Strides are wider than a line, as where layers or K and V share memory.
    const std::size_t stride = line() + 16;
    std::vector<float> page_k(order.size() * page_lines * stride, NAN), page_v = page_k, staged_k, staged_v;
    for (const wish& w : wishes) {
      const one& h = sequences_[static_cast<std::size_t>(w.sequence)];
      step_sequence sequence;
      sequence.committed = w.committed;
      for (int p = 0; p < w.end; p += page_lines) {
        sequence.pages.push_back(order.back());
        order.pop_back();
      }
      for (int p = 0; p < w.committed; ++p) {
        const auto to = static_cast<std::size_t>(sequence.pages[static_cast<std::size_t>(p / page_lines)] * page_lines +
                                                 p % page_lines) *
                        stride;
        std::copy_n(h.k.begin() + p * static_cast<std::ptrdiff_t>(line()), line(),
                    page_k.begin() + static_cast<std::ptrdiff_t>(to));
        std::copy_n(h.v.begin() + p * static_cast<std::ptrdiff_t>(line()), line(),
                    page_v.begin() + static_cast<std::ptrdiff_t>(to));
      }
      for (int p = w.committed; p < w.end; ++p) {
        s.rows.push_back({0, p, static_cast<std::int32_t>(s.sequences.size()), false});
        const auto at = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(p) * line());
        staged_k.insert(staged_k.end(), h.k.begin() + at, h.k.begin() + at + static_cast<std::ptrdiff_t>(line()));
        staged_v.insert(staged_v.end(), h.v.begin() + at, h.v.begin() + at + static_cast<std::ptrdiff_t>(line()));
        staged_k.resize(staged_k.size() + 16, NAN);
        staged_v.resize(staged_v.size() + 16, NAN);
        const auto qs = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(p) * query());
        q.insert(q.end(), h.q.begin() + qs, h.q.begin() + qs + static_cast<std::ptrdiff_t>(query()));
      }
      s.sequences.push_back(sequence);
    }
    const auto memory = [&](const std::vector<float>& v) {
      std::vector<std::uint16_t> halves(shape_.type == line_type::f16 ? v.size() : 0);
      if (!halves.empty()) to_half(v.data(), halves.data(), static_cast<std::int64_t>(v.size()), isa::scalar);
      return halves;
    };
    const auto pk = memory(page_k), pv = memory(page_v), sk = memory(staged_k), sv = memory(staged_v);
    const auto lines = [&](const std::vector<float>& f, const std::vector<std::uint16_t>& h) -> line_view {
      const bool half = shape_.type == line_type::f16;
      const void* const base = half ? static_cast<const void*>(h.data()) : static_cast<const void*>(f.data());
      return {static_cast<const std::byte*>(base), static_cast<std::int64_t>(stride) * (half ? 2 : 4)};
    };
    const shard_lines all{.kv_heads = shape_.kv_heads,
                          .page_k = lines(page_k, pk),
                          .page_v = lines(page_v, pv),
                          .staged_k = lines(staged_k, sk),
                          .staged_v = lines(staged_v, sv)};
    std::vector<float> out(q.size(), -5.0F);
    cpu::attend({.heads = shape_.heads,
                 .kv_heads = shape_.kv_heads,
                 .head_dim = shape_.head_dim,
                 .scale = scale(),
                 .type = shape_.type,
                 .q = q.data(),
                 .out = out.data(),
                 .shards = {&all, 1},
                 .what = &s},
                i, team);
    return out;
  }

  float scale() const { return 1 / std::sqrt(static_cast<float>(shape_.head_dim)); }

  /// In double precision, with the sum of |weight * V| as the measure of its errors.
  void exact(int sequence, int position, int head, std::vector<double>& out, std::vector<double>& size,
             double& peak) const {
    const one& h = sequences_[static_cast<std::size_t>(sequence)];
    const auto dim = static_cast<std::size_t>(shape_.head_dim);
    const auto kv = static_cast<std::size_t>(head / (shape_.heads / shape_.kv_heads));
    const float* const q =
        h.q.data() + static_cast<std::size_t>(position) * query() + static_cast<std::size_t>(head) * dim;
    std::vector<double> w;
    peak = 0;
    for (std::size_t p = 0; p <= static_cast<std::size_t>(position); ++p) {
      double score = 0, terms = 0;
      for (std::size_t d = 0; d < dim; ++d) {
        score += static_cast<double>(q[d]) * h.k[p * line() + kv * dim + d];
        terms += std::fabs(static_cast<double>(q[d]) * h.k[p * line() + kv * dim + d]);
      }
      w.push_back(score * scale());
      peak = std::max(peak, terms * scale());
    }
    const double top = *std::max_element(w.begin(), w.end());
    double total = 0;
    for (double& x : w) total += x = std::exp(x - top);
    out.assign(dim, 0);
    size.assign(dim, 0);
    for (std::size_t p = 0; p < w.size(); ++p) {
      for (std::size_t d = 0; d < dim; ++d) {
        const double v = h.v[p * line() + kv * dim + d];
        out[d] += w[p] / total * v;
        size[d] += w[p] / total * std::fabs(v);
      }
    }
  }

  /// Overwrites V of one position, as a broken row would.
  void spoil(int sequence, int position) {
    one& h = sequences_[static_cast<std::size_t>(sequence)];
    std::fill_n(h.v.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(position) * line()), line(), NAN);
    std::fill_n(h.k.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(position) * line()), line(), NAN);
  }

 private:
  struct one {
    std::vector<float> k, v, q;
  };

  std::vector<float> round(std::vector<float> v) const {
    if (shape_.type == line_type::f32) return v;
    std::vector<std::uint16_t> h(v.size());
    to_half(v.data(), h.data(), static_cast<std::int64_t>(v.size()), isa::scalar);
    from_half(h.data(), v.data(), static_cast<std::int64_t>(v.size()), isa::scalar);
    return v;
  }

  shape shape_;
  test::random_source& random_;
  std::vector<one> sequences_;
};

constexpr shape shapes[] = {{9, 3, 64, line_type::f16}, {4, 4, 32, line_type::f32}, {6, 1, 80, line_type::f16},
                            {2, 1, 20, line_type::f32}, {3, 3, 6, line_type::f16},  {2, 2, 256, line_type::f32}};

TEST(attention, matches_double_precision) {
  test::random_source random;
  SCOPED_TRACE(testing::Message() << "seed " << random.seed());
  thread_team team(2);
  for (const shape& s : shapes) {
    history h(s, {70}, random);
    const auto out = h.attend({{0, 0, 70}}, best_isa(), team);
    for (int p = 0; p < 70; ++p) {
      for (int head = 0; head < s.heads; ++head) {
        std::vector<double> exact, size;
        double peak;
        h.exact(0, p, head, exact, size, peak);
        for (int d = 0; d < s.head_dim; ++d) {
          // A score errs by head_dim + 2 roundings of its terms, a weight relatively by as much, twice (it is in the
          // sum as well); then exp, the sums over keys and the division.
          const double tolerance = (2 * (s.head_dim + 2) * peak + 2 * (p + 1) + 20) * 0x1p-24;
          ASSERT_NEAR(
              out[(static_cast<std::size_t>(p) * static_cast<std::size_t>(s.heads) + static_cast<std::size_t>(head)) *
                      static_cast<std::size_t>(s.head_dim) +
                  static_cast<std::size_t>(d)],
              exact[static_cast<std::size_t>(d)], size[static_cast<std::size_t>(d)] * tolerance);
        }
      }
    }
  }
}

/// Each row alone, all its keys but its own in pages, by the scalar reference, on one thread: what all others equal.
std::vector<float> row_by_row(history& h, int sequence, int begin, int end) {
  thread_team one(1);
  std::vector<float> all;
  for (int p = begin; p < end; ++p) {
    const auto out = h.attend({{sequence, p, p + 1}}, isa::scalar, one);
    all.insert(all.end(), out.begin(), out.end());
  }
  return all;
}

TEST(attention, one_result_for_every_split_batch_thread_count_and_instruction_set) {
  test::random_source random;
  SCOPED_TRACE(testing::Message() << "seed " << random.seed());
  thread_team one(1), three(3);
  for (const shape& s : shapes) {
    const std::vector<int> lengths{1, 33, 64, 101};
    history h(s, lengths, random);
    std::vector<std::vector<float>> reference;
    for (int n = 0; n < 4; ++n) reference.push_back(row_by_row(h, n, 0, lengths[static_cast<std::size_t>(n)]));
    for (const isa i : test::available()) {
      for (int round = 0; round < 6; ++round) {
        std::vector<history::wish> wishes;
        std::vector<float> expected;
        for (int n = 0; n < 4; ++n) {
          const int length = lengths[static_cast<std::size_t>(n)];
          const int end = round == 0 ? length : random.integer(1, length);
          const int begin = round == 0 ? 0 : random.integer(0, end - 1);
          wishes.push_back({n, begin, end});
          const auto& r = reference[static_cast<std::size_t>(n)];
          expected.insert(expected.end(), r.begin() + begin * static_cast<std::ptrdiff_t>(h.query()),
                          r.begin() + end * static_cast<std::ptrdiff_t>(h.query()));
        }
        SCOPED_TRACE(testing::Message() << to_string(i) << " head_dim " << s.head_dim << " round " << round);
        test::expect_same_bits(h.attend(wishes, i, round % 2 != 0 ? three : one), expected);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(attention, long_prefixes_are_the_same_whole_and_in_segments) {
  test::random_source random;
  SCOPED_TRACE(testing::Message() << "seed " << random.seed());
  thread_team one(1), two(2), many(16);
  const shape s{6, 2, 16, line_type::f16};
  history h(s, {1060}, random);
  const auto reference = row_by_row(h, 0, 1000, 1060);
  const auto tail = [&](int rows) {
    return std::vector<float>(reference.end() - static_cast<std::ptrdiff_t>(h.query()) * rows, reference.end());
  };
  for (const isa i : test::available()) {
    SCOPED_TRACE(to_string(i));
    test::expect_same_bits(h.attend({{0, 1000, 1060}}, i, two), reference);   // chunk: tiles walk all segments
    test::expect_same_bits(h.attend({{0, 1000, 1060}}, i, many), reference);  // chunk in segments, across 1024
    test::expect_same_bits(h.attend({{0, 1059, 1060}}, i, one), tail(1));
    test::expect_same_bits(h.attend({{0, 1050, 1060}}, i, two), tail(10));
  }
}

TEST(attention, a_row_that_is_not_finite_harms_no_earlier_row) {
  test::random_source random;
  SCOPED_TRACE(testing::Message() << "seed " << random.seed());
  thread_team team(2);
  for (const shape& s : shapes) {
    history h(s, {90}, random);
    for (const isa i : test::available()) {
      history broken = h;
      const auto before = h.attend({{0, 10, 90}}, i, team);
      broken.spoil(0, 77);
      const auto after = broken.attend({{0, 10, 90}}, i, team);
      const std::size_t good = 67 * h.query();
      test::expect_same_bits({after.begin(), after.begin() + static_cast<std::ptrdiff_t>(good)},
                             {before.begin(), before.begin() + static_cast<std::ptrdiff_t>(good)});
      for (std::size_t e = good; e < after.size(); ++e) ASSERT_TRUE(std::isnan(after[e]));
    }
  }
}

}  // namespace
}  // namespace kvern::gpu::cpu
