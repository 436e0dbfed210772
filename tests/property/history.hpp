#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gpu/engine/engine_impl.hpp"
#include "tests/property/cold_model.hpp"
#include "tests/property/forwarding_backend.hpp"

namespace kvern::gpu {

struct history_options {
  engine_options engine;
  bool lazy = true;                           ///< the backend writes pages in finalize alone
  read_layout lines;                          ///< what the backend reads
  std::size_t longest_prompt = 800;           ///< tokens
  std::uint64_t sessions = 14;                ///< that turns begin in
  std::uint64_t lines_are_checked_every = 1;  ///< so many operations, sequence by sequence
};

/// A random life of an engine: turns, forks, rewinds, exports, cancellations, releases, failures, in several sequences
/// of several tenants. Every answer is compared with what a cold sequence computes alone, to the bit; the lines of
/// every page with what they must be; every count with what it counts. It ends at the first violation, and depends on
/// the seed alone. The backend's vocabulary has 48 tokens or more.
class history {
 public:
  static constexpr token_id end_token = 3;

  /// `model` computes what `b` must, and outlives this.
  history(std::uint64_t seed, std::unique_ptr<backend> b, cold_model& model, history_options options);

  /// Does so many operations, lets all turns end, releases all sequences. Returns the first violation; empty when
  /// there was none.
  std::string run(int operations);

  engine_stats stats() const { return e_.stats(); }
  int finished() const { return finished_; }
  int forks() const { return forks_; }
  int rotated() const { return rotated_; }

 private:
  struct live_turn {
    turn request;
    std::vector<sampled> expected;
    finish_reason reason = finish_reason::length;
    std::shared_ptr<cold_run> cold;
    std::size_t seen = 0;
    bool started = false;
    bool cancelled = false;
    std::int64_t processed = 0;
  };
  /// What fails in a step.
  struct failures {
    bool before_forward = false;
    bool after_forward = false;
    bool finalize = false;
    bool clear = false;
    bool copy = false;
    bool row = false;
  };

  template <class... T>
  void expect(bool holds, fmt::format_string<T...> otherwise, T&&... values) {
    if (!holds && violation_.empty()) violation_ = fmt::format(otherwise, std::forward<T>(values)...);
  }
  void expect_error(const result<void>& r, const char* code) {
    expect(!r && r.error().code == code, "expected {}, got {}", code, r ? "success" : r.error().code);
  }

  engine_options with_hooks(engine_options o);
  void watch();
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  token_id any_token() { return static_cast<token_id>(below(static_cast<std::uint64_t>(e_.info().vocab))); }
  std::int32_t context() const { return e_.sequences().geometry().longest(e_.info().context); }
  static std::string tenant_of(sequence_id id) { return fmt::format("tenant{}", id % 3); }
  /// The next id for a sequence of the same tenant: its ids agree modulo 3.
  sequence_id next_relative(sequence_id of) const { return last_relative_ + 1 + (of + 3000 - last_relative_ - 1) % 3; }
  sequence_id any_sequence();
  rotation rotation_of(const turn& t) const;
  bool may_rotate() const { return options_.engine.layout != cache_layout::left && context() / page_lines >= 2; }

  void operate();
  turn make_turn(sequence_id id);
  void choose_overflow(turn& t);
  live_turn expected_of(const turn& t) const;
  void submit();
  void cancel_one();
  void release_one();
  void fork_one();
  void rewind_one();
  void copy_one();
  void step();

  void take(const turn_output& o);
  void take_token(live_turn& l, const turn_token& t);
  void end(const live_turn& l, const turn_ended& e);
  void note_dropped(std::span<const std::int32_t> accepted);
  void check_dropped();
  bool is_clear(page_id p) const;
  void note_copies(std::span<const page_copy> copies);
  void check_no_foreign_lines();
  void check_lines(sequence_id id, const sequence& s);
  void check();

  std::mt19937_64 random_;
  history_options options_;
  cold_model& model_;
  std::chrono::steady_clock::time_point now_{};
  watched_backend* backend_;
  engine_impl e_;
  std::map<sequence_id, std::vector<token_id>> sessions_;  // what each one's client has
  std::map<turn_id, live_turn> live_;
  std::map<page_id, domain_id> page_owner_;
  std::map<sequence_id, std::shared_ptr<cold_run>> cold_;  // of sequences; others' too, where they begin alike
  gpu::step in_flight_;
  std::map<std::pair<page_id, std::int32_t>, std::vector<std::byte>> dropped_;  // lines that a step must leave alone
  failures fail_;
  turn_id last_turn_ = 0;
  sequence_id last_relative_ = 100;
  std::uint64_t operation_ = 0;
  int finished_ = 0;
  int forks_ = 0;
  int rotated_ = 0;
  std::string violation_;
};

}  // namespace kvern::gpu
