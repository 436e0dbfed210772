#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gpu/engine/engine_test_support.hpp"

namespace kvern::gpu {

/// A random life of an engine on the fake backend: turns, forks, rewinds, exports, cancellations, failures, in several
/// sequences of several tenants. Every answer is compared with what a cold sequence computes alone, and after every
/// operation every line of every page with what it must hold, and every count with what it counts.
class history {
 public:
  static constexpr token_id end_token = 3;
  /// Rows in such a state get no finite logit.
  static bool is_poisoned(std::uint64_t state) { return state % 301 == 0; }

  history(std::uint64_t seed, fake_backend::shape shape, engine_options options)
      : random_(seed), shape_(std::move(shape)), layout_(options.layout), h_(shape_, with_end(std::move(options))) {
    h_.backend->nan_row = [](const gpu::step&, std::size_t, std::uint64_t state) { return is_poisoned(state); };
    h_.backend->on_forward = [this](const gpu::step& s) -> result<void> {
      check_no_foreign_lines(s);
      if (fail_forward_) return fail("device_lost", "test");
      if (below(200) == 0 && !live_.empty()) cancel_one();
      EXPECT_LE(s.rows.size(), static_cast<std::size_t>(shape_.max_rows));
      return {};
    };
    const auto tick = h_.backend->on_finalize;
    h_.backend->on_finalize = [this, tick](std::span<const std::int32_t> rows) -> result<void> {
      if (fail_finalize_) return fail("page_out_of_range", "test");
      return tick(rows);
    };
    h_.backend->on_clear = [this](std::span<const page_id>) -> result<void> {
      if (fail_clear_) return fail("device_lost", "test");
      return {};
    };
  }

  void run(int operations);

  fake_backend& backend() { return *h_.backend; }
  engine_stats stats() const { return h_.e->stats(); }
  int finished() const { return finished_; }
  int forks() const { return forks_; }
  int rotated() const { return rotated_; }

 private:
  struct expectation {
    std::vector<token_id> tokens;
    finish_reason reason = finish_reason::length;
  };
  struct live_turn {
    turn request;
    expectation expected;
    std::vector<token_id> seen;
    bool started = false;
    bool cancelled = false;
    std::int64_t processed = 0;
  };
  /// What a sequence's lines must be, kept while its tokens only grow.
  struct lines_alone {
    std::vector<token_id> tokens;
    rotation rotate;
    fake_backend::alone cold;
  };

  static engine_options with_end(engine_options o) {
    o.is_end = [](token_id t) { return t == end_token; };
    return o;
  }
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  token_id any_token() { return static_cast<token_id>(below(static_cast<std::uint64_t>(shape_.vocab))); }
  std::int32_t context() const { return h_.e->sequences().geometry().longest(shape_.context); }
  static std::string tenant_of(sequence_id id) { return fmt::format("tenant{}", id % 3); }
  rotation rotation_of(const turn& t) const {
    if (t.overflow != overflow_policy::rotate) return {};
    const auto keep = static_cast<std::int32_t>((t.rotate_keep + page_lines - 1) / page_lines);
    return {.keep = keep, .ring = context() / page_lines - keep};
  }
  bool may_rotate() const { return layout_ != cache_layout::left && context() / page_lines >= 2; }

  turn make_turn(sequence_id id);
  expectation cold(const turn& t) const;
  void submit();
  void cancel_one();
  void release_one();
  void fork_one();
  void rewind_one();
  void copy_one();
  void step();
  void take(const turn_output& o);
  void end(const live_turn& l, const turn_ended& e);
  void check_no_foreign_lines(const gpu::step& s);
  void check_invariants();
  void check_lines(sequence_id id, const sequence& s);
  sequence_id any_sequence();
  static void expect_error(const result<void>& r, const char* code) {
    ASSERT_FALSE(r);
    EXPECT_EQ(r.error().code, code);
  }

  std::mt19937_64 random_;
  fake_backend::shape shape_;
  cache_layout layout_;
  harness h_;
  std::map<sequence_id, std::vector<token_id>> sessions_;  // what each one's client has
  std::map<turn_id, live_turn> live_;
  std::map<page_id, domain_id> page_owner_;
  std::map<sequence_id, lines_alone> alone_;
  turn_id last_turn_ = 0;
  sequence_id last_fork_ = 100;
  int finished_ = 0;
  int forks_ = 0;
  int rotated_ = 0;
  bool fail_forward_ = false;
  bool fail_finalize_ = false;
  bool fail_clear_ = false;
};

}  // namespace kvern::gpu
