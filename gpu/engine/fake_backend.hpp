#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "gpu/backend.hpp"

namespace kvern::gpu {

/// A backend for tests: no model, but real pages. The line of a token is a hash of the lines before it, as they are
/// read back from their pages, and of the token; logits are a hash of all lines up to theirs. A wrong page, a line that
/// was not committed or should not have been, or a stale one changes every later answer.
///
/// Not thread-safe. The hooks may be set between steps.
class fake_backend final : public backend {
 public:
  struct shape {
    std::int32_t vocab = 64;
    std::int32_t context = 512;
    std::int32_t pages = 64;
    std::int32_t max_rows = 256;
  };

  explicit fake_backend(shape s) {
    info_.vocab = s.vocab;
    info_.context = s.context;
    info_.pages = s.pages;
    info_.max_rows = s.max_rows;
    info_.page_bytes = page_lines * sizeof(std::uint64_t);
    info_.weight_bytes = 1;
    info_.kernels = "fake";
    lines_.resize(static_cast<std::size_t>(s.pages) * page_lines, 0);
  }

  /// Runs before every forward; an error is forward's.
  std::function<result<void>(const step&)> on_forward;
  /// Whether a row's logits are all NaN; `state` is what `state_of` gives for its tokens.
  std::function<bool(const step&, std::size_t row, std::uint64_t state)> nan_row;
  /// Runs before every finalize; an error is finalize's.
  std::function<result<void>(std::span<const std::int32_t>)> on_finalize;
  /// Runs before every clear; an error is clear's.
  std::function<result<void>(std::span<const page_id>)> on_clear;

  /// The state after `tokens`, computed alone: what `logits_of` takes.
  static std::uint64_t state_of(std::span<const token_id> tokens) {
    std::uint64_t state = seed;
    for (const token_id t : tokens) state = next_state(state, t);
    return state;
  }
  /// The state after one more token.
  static std::uint64_t next_state(std::uint64_t state, token_id token) { return fold(state, line_of(state, token)); }
  /// The lines of `tokens` as they stand in pages once committed.
  static std::vector<std::uint64_t> lines_of(std::span<const token_id> tokens) {
    std::vector<std::uint64_t> out;
    std::uint64_t state = seed;
    for (const token_id t : tokens) {
      out.push_back(line_of(state, t));
      state = fold(state, out.back());
    }
    return out;
  }
  /// Logits [vocab] of a row whose state is `state`, in [-8, 8).
  static std::vector<float> logits_of(std::uint64_t state, std::int32_t vocab) {
    std::vector<float> out;
    out.reserve(static_cast<std::size_t>(vocab));
    for (std::int32_t i = 0; i < vocab; ++i)
      out.push_back(
          static_cast<float>(mix(state + static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15U) >> 40) * 0x1p-20F - 8.0F);
    return out;
  }

  const backend_info& info() const override { return info_; }

  result<void> forward(const step& s) override {
    staged_.clear();
    logits_.clear();
    ++forwards_;
    if (on_forward)
      if (auto ok = on_forward(s); !ok) return ok;
    if (auto ok = check(s); !ok) return ok;
    std::uint64_t state = seed;
    for (std::size_t i = 0; i < s.rows.size(); ++i) {
      const step_row& row = s.rows[i];
      const step_sequence& q = s.sequences[static_cast<std::size_t>(row.sequence)];
      if (i == 0 || s.rows[i - 1].sequence != row.sequence) {
        state = seed;
        for (std::int32_t p = 0; p < q.committed; ++p) state = fold(state, lines_[place(q, p)]);
      }
      const std::uint64_t line = line_of(state, row.token);
      state = fold(state, line);
      staged_.emplace_back(place(q, row.position), line);
      logits_.emplace_back();
      if (!row.logits) continue;
      logits_.back() = logits_of(state, info_.vocab);
      if (nan_row && nan_row(s, i, state)) std::fill(logits_.back().begin(), logits_.back().end(), nan);
    }
    return {};
  }

  std::span<const float> logits(std::size_t row) const override { return logits_[row]; }

  result<void> finalize(std::span<const std::int32_t> accepted) override {
    const auto staged = std::exchange(staged_, {});
    if (on_finalize)
      if (auto ok = on_finalize(accepted); !ok) return ok;
    std::int32_t last = -1;
    for (const std::int32_t row : accepted) {
      if (row <= last || static_cast<std::size_t>(row) >= staged.size())
        return fail("invalid_step", "finalize: rows must ascend and be of the last forward.");
      last = row;
    }
    for (const std::int32_t row : accepted) {
      const auto& [where, line] = staged[static_cast<std::size_t>(row)];
      lines_[where] = line;
    }
    return {};
  }

  result<void> clear(std::span<const page_id> pages) override {
    if (on_clear)
      if (auto ok = on_clear(pages); !ok) return ok;
    for (const page_id p : pages)
      std::fill_n(lines_.begin() + static_cast<std::ptrdiff_t>(p) * page_lines, page_lines, std::uint64_t{0});
    return {};
  }

  /// Whether a page holds zeros only.
  bool is_clear(page_id p) const {
    const auto lines = page(p);
    return std::all_of(lines.begin(), lines.end(), [](std::uint64_t line) { return line == 0; });
  }
  /// The lines of a page [page_lines].
  std::span<const std::uint64_t> page(page_id p) const {
    return std::span(lines_).subspan(static_cast<std::size_t>(p) * page_lines, page_lines);
  }
  /// Rows whose lines are neither committed nor dropped.
  std::size_t staged() const { return staged_.size(); }
  std::uint64_t forwards() const { return forwards_; }

 private:
  static constexpr std::uint64_t seed = 0x6b7665726e;
  static constexpr float nan = std::numeric_limits<float>::quiet_NaN();

  static std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  static std::uint64_t line_of(std::uint64_t state, token_id token) {
    return mix(state ^ (static_cast<std::uint64_t>(token) + 1) * 0xd6e8feb86659fd93U) | 1;
  }
  static std::uint64_t fold(std::uint64_t state, std::uint64_t line) { return mix(state * 31 + line); }

  static std::size_t place(const step_sequence& q, std::int32_t position) {
    const page_id p = q.pages[static_cast<std::size_t>(position / page_lines)];
    return static_cast<std::size_t>(p) * page_lines + static_cast<std::size_t>(position % page_lines);
  }

  result<void> check(const step& s) const {
    const auto bad = [](const char* what) { return fail("invalid_step", what); };
    if (s.rows.empty() || s.rows.size() > static_cast<std::size_t>(info_.max_rows)) return bad("number of rows");
    std::set<page_id> pages;
    for (const step_sequence& q : s.sequences)
      for (const page_id p : q.pages)
        if (p < 0 || p >= info_.pages || !pages.insert(p).second) return bad("a page out of range, or in two places");
    std::set<std::int32_t> begun;
    for (std::size_t i = 0; i < s.rows.size(); ++i) {
      const step_row& row = s.rows[i];
      if (row.sequence < 0 || static_cast<std::size_t>(row.sequence) >= s.sequences.size()) return bad("sequence");
      const step_sequence& q = s.sequences[static_cast<std::size_t>(row.sequence)];
      const bool first = i == 0 || s.rows[i - 1].sequence != row.sequence;
      if (first && !begun.insert(row.sequence).second) return bad("rows of one sequence apart");
      if (row.position != (first ? q.committed : s.rows[i - 1].position + 1)) return bad("position");
      if (row.position >= info_.context) return bad("position beyond the context");
      if (static_cast<std::size_t>(row.position / page_lines) >= q.pages.size()) return bad("no page for a position");
      if (row.token < 0 || row.token >= info_.vocab) return bad("token");
    }
    return {};
  }

  backend_info info_;
  std::vector<std::uint64_t> lines_;  ///< [pages][page_lines]; 0: cleared, or never written
  std::vector<std::pair<std::size_t, std::uint64_t>> staged_;
  std::vector<std::vector<float>> logits_;
  std::uint64_t forwards_ = 0;
};

}  // namespace kvern::gpu
