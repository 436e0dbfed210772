#pragma once

// Sequences for the tests of attention: their lines in every arrangement, and what attention of them is in double
// precision.

#include <algorithm>
#include <numeric>
#include <utility>

#include "gpu/cpu/attention.hpp"
#include "gpu/cpu/kernel_test_data.hpp"
#include "gpu/cpu/line_format.hpp"

namespace kvern::gpu::cpu::test {

/// What the result depends on, besides tokens.
struct attention_case {
  int heads, kv_heads, head_dim;
  line_type type = line_type::f32;
  scale_span span = scale_span::group;
  std::int32_t window = 0;
  rotation rotate = {};
  float cap = 0;

  friend std::ostream& operator<<(std::ostream& out, const attention_case& c) {
    return out << c.heads << " heads, " << c.kv_heads << " KV heads of " << c.head_dim << ", type "
               << static_cast<int>(c.type) << " span " << static_cast<int>(c.span) << ", window " << c.window
               << ", keep " << c.rotate.keep << " ring " << c.rotate.ring << ", cap " << c.cap;
  }
};

/// What it must not depend on.
struct arrangement {
  isa kernels = isa::scalar;
  bool eager = false;
  int shards = 1;
  std::int32_t tables = 1, table = 0;
};

/// Rows [committed, end) of a sequence in one step.
struct wish {
  int sequence, committed, end;
};

/// K, V and queries of whole sequences; computes any rows of them with any share of the keys in pages.
class history {
 public:
  history(const attention_case& c, const std::vector<int>& lengths, random_source& random) : case_(c), random_(random) {
    for (const int length : lengths) {
      const auto n = static_cast<std::size_t>(length);
      one h{random.normal(n * line()), random.normal(n * line()), random.normal(n * query()), {}, {}};
      for (std::size_t at = 0; at < n * line(); at += line()) {
        append(h.stored_k, stored(h.k.data() + at));
        append(h.stored_v, stored(h.v.data() + at));
      }
      sequences_.push_back(std::move(h));
    }
  }

  std::size_t line() const { return static_cast<std::size_t>(case_.kv_heads * case_.head_dim); }
  std::size_t query() const { return static_cast<std::size_t>(case_.heads * case_.head_dim); }
  float scale() const { return 1 / std::sqrt(static_cast<float>(case_.head_dim)); }

  bool sees(int row, int key) const {
    const visible_keys seen = visible(case_.rotate, case_.window, row);
    return key <= row && (key >= seen.first || (key >= seen.kept_begin && key < seen.kept_end));
  }

  /// Every byte of memory is 255, a NaN in each type or its scale, but those of lines that a row may read. A block of
  /// which no row sees anything has no page.
  std::vector<float> attend(const std::vector<wish>& wishes, const arrangement& how, thread_team& team) {
    step s;
    std::vector<float> q;
    std::vector<page_id> order;
    for (const wish& w : wishes) order.resize(order.size() + static_cast<std::size_t>(w.end / page_lines + 2));
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t n = order.size(); n > 1; --n)
      std::swap(order[n - 1], order[static_cast<std::size_t>(random_.integer(0, static_cast<int>(n) - 1))]);
    const std::size_t pages = order.size();
    std::size_t rows = 0;
    for (const wish& w : wishes) rows += static_cast<std::size_t>(w.end - w.committed);
    std::vector<memory> shards;
    for (int n = 0; n < how.shards; ++n) {
      const int first = n * case_.kv_heads / how.shards, end = (n + 1) * case_.kv_heads / how.shards;
      shards.emplace_back(case_, first, end - first, pages * page_lines, rows);
    }
    for (const wish& w : wishes) {
      const one& h = sequences_[static_cast<std::size_t>(w.sequence)];
      step_sequence sequence;
      sequence.committed = w.committed;
      sequence.rotate = case_.rotate;
      const auto blocks = static_cast<std::size_t>((w.end + page_lines - 1) / page_lines);
      sequence.pages.assign(blocks * static_cast<std::size_t>(how.tables), no_page);
      page_id* const table = sequence.pages.data() + static_cast<std::size_t>(how.table) * blocks;
      for (int p = 0; p < w.end; ++p) {
        const auto at = static_cast<std::size_t>(p) * line();
        bool seen = false;
        for (int row = std::max(w.committed, p); row < w.end && !seen; ++row) seen = sees(row, p);
        page_id& page = table[p / page_lines];
        if (seen && (how.eager || p < w.committed)) {
          if (page == no_page) {
            page = order.back();
            order.pop_back();
          }
          const auto number = static_cast<std::size_t>(page * page_lines + p % page_lines);
          for (memory& m : shards) m.put(h.k.data() + at, h.v.data() + at, number, false);
        }
        if (p < w.committed) continue;
        if (!how.eager) {
          for (memory& m : shards) m.put(h.k.data() + at, h.v.data() + at, s.rows.size(), true);
        }
        s.rows.push_back({0, p, static_cast<std::int32_t>(s.sequences.size()), false});
        const auto qs = h.q.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(p) * query());
        q.insert(q.end(), qs, qs + static_cast<std::ptrdiff_t>(query()));
      }
      s.sequences.push_back(sequence);
    }
    std::vector<shard_lines> lines;
    for (const memory& m : shards) lines.push_back(m.lines());
    std::vector<float> out(q.size(), -5.0F);
    cpu::attend({.heads = case_.heads,
                 .kv_heads = case_.kv_heads,
                 .head_dim = case_.head_dim,
                 .scale = scale(),
                 .cap = case_.cap,
                 .window = case_.window,
                 .type = case_.type,
                 .span = case_.span,
                 .q = q.data(),
                 .out = out.data(),
                 .shards = lines,
                 .what = &s,
                 .table = how.table,
                 .tables = how.tables,
                 .eager = how.eager},
                how.kernels, team);
    return out;
  }

  /// In double precision, with the sum of |weight * V| and the largest sum of |q * K| as measures of its errors.
  struct exact_result {
    std::vector<double> out, size;
    double peak = 0;
    int keys = 0;
  };
  exact_result exact(int sequence, int position, int head) const {
    const one& h = sequences_[static_cast<std::size_t>(sequence)];
    const auto dim = static_cast<std::size_t>(case_.head_dim);
    const auto kv = static_cast<std::size_t>(head / (case_.heads / case_.kv_heads));
    const float* const q =
        h.q.data() + static_cast<std::size_t>(position) * query() + static_cast<std::size_t>(head) * dim;
    std::vector<const double*> values;
    std::vector<double> w;
    exact_result r;
    for (int p = 0; p <= position; ++p) {
      if (!sees(position, p)) continue;
      const std::size_t at = static_cast<std::size_t>(p) * line() + kv * dim;
      const double* const k = h.stored_k.data() + at;
      values.push_back(h.stored_v.data() + at);
      double score = 0, terms = 0;
      for (std::size_t d = 0; d < dim; ++d) {
        score += q[d] * k[d] * scale();
        terms += std::fabs(q[d] * k[d] * scale());
      }
      w.push_back(case_.cap > 0 ? case_.cap * std::tanh(score / case_.cap) : score);
      r.peak = std::max(r.peak, terms);
    }
    r.keys = static_cast<int>(w.size());
    const double top = *std::max_element(w.begin(), w.end());
    double total = 0;
    for (double& x : w) total += x = std::exp(x - top);
    r.out.assign(dim, 0);
    r.size.assign(dim, 0);
    for (std::size_t p = 0; p < w.size(); ++p) {
      for (std::size_t d = 0; d < dim; ++d) {
        r.out[d] += w[p] / total * values[p][d];
        r.size[d] += w[p] / total * std::fabs(values[p][d]);
      }
    }
    return r;
  }

  /// Overwrites K and V of one position, as a broken row would.
  void spoil(int sequence, int position) {
    one& h = sequences_[static_cast<std::size_t>(sequence)];
    const auto at = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(position) * line());
    std::fill_n(h.v.begin() + at, line(), NAN);
    std::fill_n(h.k.begin() + at, line(), NAN);
  }

 private:
  /// Asked once: a virtual machine answers slowly.
  static isa fastest() {
    static const isa best = best_isa();
    return best;
  }

  struct one {
    std::vector<float> k, v, q;
    std::vector<double> stored_k, stored_v;  // as a line holds them
  };

  static void append(std::vector<double>& to, const std::vector<double>& what) {
    to.insert(to.end(), what.begin(), what.end());
  }

  /// Pages and staged lines of some KV heads. Parts lie further apart than they are long.
  struct memory {
    line_format format;
    int first;
    std::size_t stride;
    std::vector<std::byte> pages[2], staged[2];

    memory(const attention_case& c, int first_head, int heads, std::size_t page_line_count, std::size_t rows)
        : format{c.type, c.span, heads, c.head_dim, heads * c.head_dim + 1}, first(first_head) {
      const auto values = static_cast<std::size_t>(heads * c.head_dim);
      stride = (values * 5 + 64) / 4 * 4;  // int8 with a scale for every value would fit
      for (auto& v : pages) v.assign(page_line_count * stride, std::byte{255});
      for (auto& v : staged) v.assign(rows * stride, std::byte{255});
    }
    void put(const float* k, const float* v, std::size_t number, bool stage) {
      auto& to = stage ? staged : pages;
      store_line(format, k + first * format.head_dim, to[0].data() + number * stride, fastest());
      store_line(format, v + first * format.head_dim, to[1].data() + number * stride, fastest());
    }
    shard_lines lines() const {
      const auto view = [&](const std::vector<std::byte>& v) -> line_view {
        return {v.data(), static_cast<std::int64_t>(stride)};
      };
      return {.first_kv_head = first,
              .kv_heads = format.kv_heads,
              .page_k = view(pages[0]),
              .page_v = view(pages[1]),
              .staged_k = view(staged[0]),
              .staged_v = view(staged[1]),
              .scales_offset = format.scales_offset};
    }
  };

  /// The values that a line of these holds.
  std::vector<double> stored(const float* values) const {
    std::vector<double> out(values, values + line());
    if (case_.type == line_type::f32) return out;
    const auto dim = static_cast<std::size_t>(case_.head_dim);
    std::vector<std::byte> part(line() * 4 + 8);
    store_line({case_.type, case_.span, case_.kv_heads, case_.head_dim, static_cast<std::int64_t>(line())}, values,
               part.data(), fastest());
    const auto word = [&](std::size_t byte) {
      std::uint16_t h;
      std::memcpy(&h, part.data() + byte, sizeof h);
      return h;
    };
    const std::size_t groups = (dim + 31) / 32;
    for (std::size_t i = 0; i < line(); ++i) {
      const std::size_t head = i / dim;
      const std::size_t scale = case_.span == scale_span::group  ? head * groups + i % dim / 32
                                : case_.span == scale_span::head ? head
                                                                 : 0;
      if (case_.type == line_type::f16)
        out[i] = half_value(word(2 * i));
      else if (case_.type == line_type::bf16)
        out[i] = std::bit_cast<float>(std::uint32_t{word(2 * i)} << 16);
      else
        out[i] = static_cast<double>(static_cast<std::int8_t>(part[i])) * half_value(word(line() + 2 * scale));
    }
    return out;
  }

  attention_case case_;
  random_source& random_;
  std::vector<one> sequences_;
};

}  // namespace kvern::gpu::cpu::test
