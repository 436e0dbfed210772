#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
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
    std::vector<std::int32_t> windows = {0};  ///< [table]
  };

  explicit fake_backend(shape s) {
    info_.vocab = s.vocab;
    info_.context = s.context;
    info_.max_position = 1 << 20;
    info_.windows = s.windows;
    info_.page_layers = 1;
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
  /// Changes a row's logits [vocab].
  std::function<void(const step&, std::size_t row, std::span<float>)> change_logits;
  /// Runs whenever a row's logits are asked for.
  std::function<void(std::size_t row)> on_logits;
  /// Runs before every finalize; an error is finalize's.
  std::function<result<void>(std::span<const std::int32_t>)> on_finalize;
  /// Runs before every clear; an error is clear's.
  std::function<result<void>(std::span<const page_id>)> on_clear;

  /// A sequence computed alone, token by token, without pages: what any other way must equal.
  class alone {
   public:
    explicit alone(std::vector<std::int32_t> windows = {0}, rotation rotate = {})
        : windows_(std::move(windows)), rotate_(rotate), lines_(windows_.size()) {}

    void append(token_id token) {
      const auto position = static_cast<std::int32_t>(lines_.front().size());
      states each;
      for (std::size_t t = 0; t < windows_.size(); ++t)
        each.push_back(seen(rotate_, windows_[t], position,
                            [&](std::int32_t p) { return lines_[t][static_cast<std::size_t>(p)]; }));
      const std::vector<std::uint64_t> lines = lines_after(each, token);
      for (std::size_t t = 0; t < lines_.size(); ++t) lines_[t].push_back(lines[t]);
      state_ = combined(each);
    }
    /// What `logits_of` takes.
    std::uint64_t state() const { return state_; }
    /// [table][position]
    const std::vector<std::vector<std::uint64_t>>& lines() const { return lines_; }

   private:
    std::vector<std::int32_t> windows_;
    rotation rotate_;
    std::vector<std::vector<std::uint64_t>> lines_;
    std::uint64_t state_ = seed;
  };

  /// The state after `tokens`, computed alone: what `logits_of` takes.
  static std::uint64_t state_of(std::span<const token_id> tokens) {
    std::uint64_t state = seed;
    for (const token_id t : tokens) state = next_state(state, t);
    return state;
  }
  /// The state after one more token, where nothing is forgotten.
  static std::uint64_t next_state(std::uint64_t state, token_id token) { return fold(state, line_of(state, token)); }
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
    const std::size_t tables = info_.windows.size();
    std::size_t first = 0;  // row of the sequence
    for (std::size_t i = 0; i < s.rows.size(); ++i) {
      const step_row& row = s.rows[i];
      const step_sequence& q = s.sequences[static_cast<std::size_t>(row.sequence)];
      if (i == 0 || s.rows[i - 1].sequence != row.sequence) first = i;
      states each;
      for (std::size_t t = 0; t < tables; ++t)
        each.push_back(seen(q.rotate, info_.windows[t], row.position, [&](std::int32_t p) {
          if (p < q.committed) return lines_[place(q, t, p)];
          return staged_[(first + static_cast<std::size_t>(p - q.committed)) * tables + t].second;
        }));
      const std::vector<std::uint64_t> lines = lines_after(each, row.token);
      for (std::size_t t = 0; t < tables; ++t) staged_.emplace_back(place(q, t, row.position), lines[t]);
      logits_.emplace_back();
      if (!row.logits) continue;
      const std::uint64_t state = combined(each);
      logits_.back() = logits_of(state, info_.vocab);
      if (change_logits) change_logits(s, i, logits_.back());
      if (nan_row && nan_row(s, i, state)) std::fill(logits_.back().begin(), logits_.back().end(), nan);
    }
    return {};
  }

  std::span<const float> logits(std::size_t row) const override {
    if (on_logits) on_logits(row);
    return logits_[row];
  }

  result<void> finalize(std::span<const std::int32_t> accepted) override {
    const auto staged = std::exchange(staged_, {});
    if (on_finalize)
      if (auto ok = on_finalize(accepted); !ok) return ok;
    std::int32_t last = -1;
    for (const std::int32_t row : accepted) {
      if (row <= last || static_cast<std::size_t>(row) >= staged.size() / info_.windows.size())
        return fail("invalid_step", "finalize: rows must ascend and be of the last forward.");
      last = row;
    }
    for (const std::int32_t row : accepted) {
      for (std::size_t t = 0; t < info_.windows.size(); ++t) {
        const auto& [where, line] = staged[static_cast<std::size_t>(row) * info_.windows.size() + t];
        lines_[where] = line;
      }
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

  result<void> copy(std::span<const page_copy> copies) override {
    for (const page_copy& c : copies) {
      if (skip_copy && skip_copy(c)) continue;
      std::copy_n(lines_.begin() + static_cast<std::ptrdiff_t>(c.from) * page_lines, c.lines,
                  lines_.begin() + static_cast<std::ptrdiff_t>(c.to) * page_lines);
    }
    return {};
  }
  result<void> read(page_id p, std::int32_t lines, std::span<std::byte> out) const override {
    std::memcpy(out.data(), page(p).data(), static_cast<std::size_t>(lines) * sizeof(std::uint64_t));
    return {};
  }
  result<void> write(page_id p, std::int32_t lines, std::span<const std::byte> in) override {
    if (on_write) on_write(p);
    std::memcpy(lines_.data() + static_cast<std::size_t>(p) * page_lines, in.data(),
                static_cast<std::size_t>(lines) * sizeof(std::uint64_t));
    return {};
  }
  /// Runs before every write.
  std::function<void(page_id)> on_write;
  /// Mutation: copies for which this is true are left out.
  std::function<bool(const page_copy&)> skip_copy;

  /// Whether a page holds zeros only.
  bool is_clear(page_id p) const {
    const auto lines = page(p);
    return std::all_of(lines.begin(), lines.end(), [](std::uint64_t line) { return line == 0; });
  }
  /// The lines of a page [page_lines].
  std::span<const std::uint64_t> page(page_id p) const {
    return std::span(lines_).subspan(static_cast<std::size_t>(p) * page_lines, page_lines);
  }
  /// Lines that are neither committed nor dropped.
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

  using states = std::vector<std::uint64_t>;  // [table]

  template <class F>
  static std::uint64_t seen(const rotation& r, std::int32_t window, std::int32_t position, F line) {
    std::uint64_t state = seed;
    const visible_keys keys = visible(r, window, position);
    for (std::int32_t p = keys.kept_begin; p < keys.kept_end; ++p) state = fold(state, line(p));
    for (std::int32_t p = keys.first; p < position; ++p) state = fold(state, line(p));
    return state;
  }
  static std::uint64_t combined(const states& s) {
    std::uint64_t state = s.front();
    for (std::size_t t = 1; t < s.size(); ++t) state = fold(state, s[t]);
    return state;
  }
  /// A token's line in each table; `s` then has them too.
  static std::vector<std::uint64_t> lines_after(states& s, token_id token) {
    const std::uint64_t before = combined(s);
    std::vector<std::uint64_t> lines;
    for (std::size_t t = 0; t < s.size(); ++t) {
      lines.push_back(line_of(before + t * 0x9e3779b97f4a7c15U, token));
      s[t] = fold(s[t], lines.back());
    }
    return lines;
  }

  std::size_t place(const step_sequence& q, std::size_t table, std::int32_t position) const {
    const std::size_t blocks = q.pages.size() / info_.windows.size();
    const page_id p = q.pages[table * blocks + static_cast<std::size_t>(position / page_lines)];
    return static_cast<std::size_t>(p) * page_lines + static_cast<std::size_t>(position % page_lines);
  }

  result<void> check(const step& s) const {
    const auto bad = [](const char* what) { return fail("invalid_step", what); };
    if (s.rows.empty() || s.rows.size() > static_cast<std::size_t>(info_.max_rows)) return bad("number of rows");
    // Lines that rows of this step write, and pages that others may read meanwhile.
    std::set<std::pair<page_id, std::int32_t>> written;
    for (const step_row& row : s.rows) {
      const step_sequence& q = s.sequences[static_cast<std::size_t>(row.sequence)];
      const std::size_t blocks = q.pages.size() / info_.windows.size();
      const auto block = static_cast<std::size_t>(row.position / page_lines);
      if (block >= blocks) return bad("no page for a position");
      for (std::size_t t = 0; t < info_.windows.size(); ++t) {
        const auto usable = [&](std::size_t b) {
          const page_id p = q.pages[t * blocks + b];
          return p >= 0 && p < info_.pages;
        };
        if (!usable(block)) return bad("no page for a row");
        const visible_keys keys = visible(q.rotate, info_.windows[t], row.position);
        for (std::int32_t p = keys.kept_begin; p < keys.kept_end; ++p)
          if (!usable(static_cast<std::size_t>(p / page_lines))) return bad("a kept line without a page");
        for (std::int32_t p = keys.first; p <= row.position; ++p)
          if (!usable(static_cast<std::size_t>(p / page_lines))) return bad("a visible line without a page");
        if (!written.emplace(q.pages[t * blocks + block], row.position % page_lines).second)
          return bad("two rows in one line");
      }
    }
    for (const step_sequence& q : s.sequences) {
      const std::size_t blocks = q.pages.size() / info_.windows.size();
      for (std::size_t t = 0; t < info_.windows.size(); ++t) {
        const visible_keys keys = visible(q.rotate, info_.windows[t], q.committed);
        for (std::int32_t p = 0; p < q.committed; ++p)
          if (((p >= keys.kept_begin && p < keys.kept_end) || p >= keys.first) &&
              written.contains({q.pages[t * blocks + static_cast<std::size_t>(p / page_lines)], p % page_lines}))
            return bad("a committed line would be overwritten");
      }
    }
    std::set<std::int32_t> begun;
    for (std::size_t i = 0; i < s.rows.size(); ++i) {
      const step_row& row = s.rows[i];
      if (row.sequence < 0 || static_cast<std::size_t>(row.sequence) >= s.sequences.size()) return bad("sequence");
      const step_sequence& q = s.sequences[static_cast<std::size_t>(row.sequence)];
      const bool first = i == 0 || s.rows[i - 1].sequence != row.sequence;
      if (first && !begun.insert(row.sequence).second) return bad("rows of one sequence apart");
      if (row.position != (first ? q.committed : s.rows[i - 1].position + 1)) return bad("position");
      if (row.position >= (q.rotate.ring > 0 ? info_.max_position : info_.context)) return bad("position");
      if (row.token < 0 || row.token >= info_.vocab) return bad("token");
    }
    return {};
  }

  backend_info info_;
  std::vector<std::uint64_t> lines_;                           ///< [pages][page_lines]; 0: cleared, or never written
  std::vector<std::pair<std::size_t, std::uint64_t>> staged_;  ///< [row][table] where it goes, and the line
  std::vector<std::vector<float>> logits_;
  std::uint64_t forwards_ = 0;
};

}  // namespace kvern::gpu
