#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "actors/test_doubles.hpp"
#include "gpu/engine/engine.hpp"

namespace kvern::actors::test {

/// What a test tells its engine and sees of it.
struct engine_script {
  /// The next token after `sequence`, the `n`-th of its turn.
  std::function<token_id(std::span<const token_id> sequence, std::int64_t n)> next = [](auto, auto) {
    return byte_tokenizer::eos_id;
  };
  std::int32_t context = 1 << 20;
  std::size_t max_running = 1000;
  std::size_t max_queued = 1000;
  std::size_t chunk = 1 << 20;
  std::int64_t fail_at = -1;  ///< the n-th token of a turn fails it instead

  std::mutex mutex;
  std::condition_variable changed;
  std::int64_t permits = -1;  ///< steps it may still do; -1: any number
  bool fails = false;         ///< the next step throws
  std::int64_t arrived = 0;   ///< times a step began
  std::int64_t steps = 0;     ///< done
  std::int64_t submitted = 0;
  std::int64_t started = 0;
  std::int64_t turns = 0;                        ///< there now
  std::int64_t sequences = 0;                    ///< there now
  std::map<gpu::sequence_id, tokens> held = {};  ///< what the sequences have, those without a turn
  std::int64_t wrong_keeps = 0;                  ///< turns that would have kept tokens that are not the prompt's
  std::int64_t wrong_lines = 0;                  ///< imported blocks that are not those of their tokens
  gpu::turn last_turn = {};                      ///< submitted last
  bool destroyed = false;

  template <class F>
  void set(F f) {
    const std::lock_guard lock(mutex);
    f(*this);
    changed.notify_all();
  }
  void allow(std::int64_t more) {
    set([&](auto& s) { s.permits = s.permits < 0 ? more : s.permits + more; });
  }
  void hold() {
    set([](auto& s) { s.permits = 0; });
  }
  void go() {
    set([](auto& s) { s.permits = -1; });
  }
  template <class F>
  bool wait(F condition) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, limit, [&] { return condition(*this); });
  }
};

/// An engine without a model. Each step takes one chunk of every prompt or makes one token of every answer; a step
/// without permit waits for one, as a long step would. It keeps every token it made, the end token too, until it is
/// told otherwise: so a session that forgets to tell shows. A line's bytes are those of its tokens' hash.
class scripted_engine : public gpu::engine {
 public:
  explicit scripted_engine(std::shared_ptr<engine_script> script) : script_(std::move(script)) {
    info_.vocab = 300;
    info_.context = script_->context;
    info_.max_position = 1 << 24;
    info_.pages = 1 << 16;
    info_.kernels = "scripted";
    info_.page_layers = 1;
    info_.layers = {{0, 0}};
    info_.kv_heads = 1;
    info_.head_dim = 256;
    info_.page_bytes = gpu::page_lines * line_bytes;
  }
  ~scripted_engine() override {
    script_->set([](auto& s) { s.destroyed = true; });
  }

  result<void> submit(gpu::turn t) override {
    const std::lock_guard lock(script_->mutex);
    const auto same = std::ranges::find(turns_, t.sequence, [](const auto& r) { return r.turn.sequence; });
    if (same != turns_.end()) return fail("busy", "The sequence has a turn.");
    if (turns_.size() >= script_->max_queued) return fail("queue_full", "Too many turns wait.");
    const auto wanted = t.overflow == gpu::overflow_policy::error ? std::max<std::int64_t>(t.max_tokens, 1) : 1;
    if (t.overflow != gpu::overflow_policy::rotate && std::ssize(t.prompt) + wanted > info_.context)
      return fail("context_length_exceeded", "The prompt is too long.");
    auto& known = sequences_[t.sequence];
    const auto kept = static_cast<std::size_t>(t.keep);
    const bool right = kept < t.prompt.size() && kept <= known.ids.size() &&
                       std::equal(t.prompt.begin(), t.prompt.begin() + t.keep, known.ids.begin());
    if (!right) script_->wrong_keeps += 1;
    known.tenant = t.tenant;
    script_->last_turn = t;
    turns_.push_back({std::move(t)});
    script_->submitted += 1;
    tell();
    return {};
  }

  void cancel(gpu::turn_id id, std::int64_t keep) override {
    const std::lock_guard lock(script_->mutex);
    const auto found = std::ranges::find(turns_, id, [](const auto& r) { return r.turn.id; });
    if (found != turns_.end()) {
      auto& s = sequences_[found->turn.sequence];
      cut(s, keep < 0 ? s.committed : keep);
      end(found, gpu::finish_reason::cancelled);
    }
    tell();
  }

  result<void> fork(gpu::sequence_id from, gpu::sequence_id to, std::int64_t length) override {
    const std::lock_guard lock(script_->mutex);
    const auto found = sequences_.find(from);
    if (found == sequences_.end()) return fail("not_found", "no such sequence");
    if (sequences_.contains(to) || length < 0 || length > std::ssize(found->second.ids))
      return fail("invalid_request", "wrong fork");
    auto copy = found->second;
    cut(copy, length);
    sequences_.emplace(to, std::move(copy));
    tell();
    return {};
  }

  result<std::int64_t> rewind(gpu::sequence_id id, std::int64_t length) override {
    const std::lock_guard lock(script_->mutex);
    const auto found = sequences_.find(id);
    if (found == sequences_.end()) return fail("not_found", "no such sequence");
    if (has_turn(id)) return fail("busy", "it has a turn");
    if (length < 0 || length > std::ssize(found->second.ids)) return fail("invalid_request", "wrong length");
    cut(found->second, length);
    tell();
    return found->second.committed;
  }

  void cut(gpu::sequence_id id, std::int64_t length) override {
    const std::lock_guard lock(script_->mutex);
    const auto found = sequences_.find(id);
    if (found == sequences_.end() || has_turn(id) || length >= std::ssize(found->second.ids)) return;
    cut(found->second, length);
    tell();
  }

  std::int64_t tokens_of(gpu::sequence_id id) const override {
    const auto found = sequences_.find(id);
    return found == sequences_.end() ? 0 : std::ssize(found->second.ids);
  }

  std::optional<gpu::sequence_info> describe(gpu::sequence_id id) const override {
    const auto found = sequences_.find(id);
    if (found == sequences_.end()) return std::nullopt;
    gpu::sequence_info out;
    out.tokens = std::ssize(found->second.ids);
    out.committed = found->second.committed;
    out.reusable = out.committed;
    out.pages = blocks(found->second);
    out.bytes = static_cast<std::uint64_t>(out.pages) * info_.page_bytes;
    return out;
  }

  gpu::reuse_estimate estimate(const std::string&, gpu::sequence_id id,
                               std::span<const token_id> prompt) const override {
    const auto found = sequences_.find(id);
    if (found == sequences_.end()) return {};
    const auto same = std::ranges::mismatch(found->second.ids, prompt).in2 - prompt.begin();
    return {std::min({same, found->second.committed, std::ssize(prompt) - 1}), 0};
  }

  result<gpu::sequence_state> state_of(gpu::sequence_id id) const override {
    const auto found = sequences_.find(id);
    if (found == sequences_.end()) return fail("not_found", "no such sequence");
    return gpu::sequence_state{found->second.ids, static_cast<std::int32_t>(found->second.committed), {}};
  }

  result<gpu::block_lines> read_block(gpu::sequence_id id, std::int32_t table, std::int32_t block) const override {
    const auto found = sequences_.find(id);
    if (found == sequences_.end() || table != 0 || block >= blocks(found->second))
      return fail("not_found", "no such block");
    return lines_of(found->second, block);
  }

  result<void> begin_import(gpu::sequence_id id, const std::string& tenant, gpu::sequence_state state) override {
    const std::lock_guard lock(script_->mutex);
    if (sequences_.contains(id)) return fail("invalid_request", "it exists");
    sequences_.emplace(id, sequence{std::move(state.tokens), state.committed, tenant});
    tell();
    return {};
  }
  result<void> import_block(gpu::sequence_id id, const gpu::block_lines& lines) override {
    const std::lock_guard lock(script_->mutex);
    const auto& s = sequences_.at(id);
    if (lines.bytes != lines_of(s, lines.block).bytes) script_->wrong_lines += 1;
    imported_ += 1;
    return {};
  }
  result<void> end_import(gpu::sequence_id id) override {
    const auto& s = sequences_.at(id);
    if (std::exchange(imported_, 0) != blocks(s)) return fail("invalid_request", "blocks are missing");
    return {};
  }

  void release(gpu::sequence_id id) override {
    const std::lock_guard lock(script_->mutex);
    std::erase_if(turns_, [&](const auto& r) { return r.turn.sequence == id; });
    sequences_.erase(id);
    tell();
  }

  bool idle() const override { return turns_.empty() && ended_.empty(); }

  void step(std::vector<gpu::turn_output>& outputs) override {
    std::unique_lock lock(script_->mutex);
    script_->arrived += 1;
    script_->changed.notify_all();
    script_->changed.wait(lock, [&] { return script_->permits != 0 || script_->fails; });
    if (script_->fails) throw std::runtime_error("scripted failure");
    if (script_->permits > 0) script_->permits -= 1;
    std::size_t running = 0;
    for (auto it = turns_.begin(); it != turns_.end() && running < script_->max_running; ++running)
      it = advance(it, outputs);
    outputs.insert(outputs.end(), ended_.begin(), ended_.end());
    ended_.clear();
    script_->steps += 1;
    stats_.steps += 1;
    tell();
  }

  gpu::engine_stats stats() const override { return stats_; }
  const gpu::backend_info& info() const override { return info_; }

 private:
  static constexpr std::size_t line_bytes = 2 * 256 * 2;  // K and V of 256 f16

  struct record {
    gpu::turn turn;
    std::int64_t processed = -1;  ///< -1: queued
    std::int64_t generated = 0;
  };
  struct sequence {
    tokens ids;
    std::int64_t committed = 0;
    std::string tenant;
  };
  using place = std::vector<record>::iterator;

  static void cut(sequence& s, std::int64_t length) {
    if (length < std::ssize(s.ids)) s.ids.resize(static_cast<std::size_t>(length));
    s.committed = std::min(s.committed, length);
  }

  static std::int32_t blocks(const sequence& s) {
    return static_cast<std::int32_t>((s.committed + gpu::page_lines - 1) / gpu::page_lines);
  }

  static gpu::block_lines lines_of(const sequence& s, std::int32_t block) {
    const auto first = std::int64_t{block} * gpu::page_lines;
    const auto lines = std::min<std::int64_t>(gpu::page_lines, s.committed - first);
    gpu::block_lines out{0, block, static_cast<std::int32_t>(lines), {}};
    std::uint64_t hash = 14695981039346656037u;
    for (std::int64_t p = 0; p < first + lines; ++p) {
      hash = (hash ^ static_cast<std::uint64_t>(s.ids[static_cast<std::size_t>(p)])) * 1099511628211u;
      if (p < first) continue;
      for (std::size_t i = 0; i < line_bytes; ++i) out.bytes.push_back(static_cast<std::byte>(hash >> (8 * (i % 8))));
    }
    return out;
  }

  bool has_turn(gpu::sequence_id id) const {
    return std::ranges::find(turns_, id, [](const auto& r) { return r.turn.sequence; }) != turns_.end();
  }

  /// One step of one turn; where the next turn is.
  place advance(place it, std::vector<gpu::turn_output>& outputs) {
    auto& [turn, processed, generated] = *it;
    auto& s = sequences_[turn.sequence];
    const auto id = turn.id;
    const auto total = std::ssize(turn.prompt);
    if (processed < 0) {
      processed = std::min(turn.keep, s.committed);
      s.ids = turn.prompt;
      s.committed = processed;
      script_->started += 1;
      outputs.push_back({id, gpu::turn_started{processed}});
    }
    if (processed < total) {
      processed = std::min(total, processed + static_cast<std::int64_t>(script_->chunk));
      s.committed = processed;
      outputs.push_back({id, gpu::turn_progress{processed, total}});
      if (processed < total) return it + 1;
    }
    s.committed = std::ssize(s.ids);
    if (generated == script_->fail_at) return end(it, gpu::finish_reason::failed);
    const auto token = script_->next(s.ids, generated++);
    s.ids.push_back(token);
    const bool is_end = token == byte_tokenizer::eos_id;
    token_logprob logprob;
    if (turn.logprobs >= 0) logprob.logprob = -0.5;
    outputs.push_back({id, gpu::turn_token{token, is_end, logprob}});
    stats_.generated_tokens += 1;
    if (is_end && !turn.ignore_eos) return end(it, gpu::finish_reason::stop);
    const bool full = turn.overflow != gpu::overflow_policy::rotate && std::ssize(s.ids) >= info_.context;
    if (generated == turn.max_tokens || full) return end(it, gpu::finish_reason::length);
    return it + 1;
  }

  place end(place it, gpu::finish_reason reason) {
    auto& s = sequences_[it->turn.sequence];
    gpu::turn_ended ended;
    ended.reason = reason;
    if (reason == gpu::finish_reason::failed) ended.why = {"scripted", "It was to fail."};
    const bool rotates = it->turn.overflow == gpu::overflow_policy::rotate;
    ended.context_full = !rotates && reason == gpu::finish_reason::length && std::ssize(s.ids) >= info_.context;
    ended.forgotten = rotates ? std::max<std::int64_t>(0, std::ssize(s.ids) - info_.context) : 0;
    ended.rotate_keep = it->turn.rotate_keep;
    if (it->turn.exclude_tail > 0) cut(s, std::ssize(it->turn.prompt) - it->turn.exclude_tail);
    ended.committed = s.committed;
    ended.generate_ms = 1;
    ended_.push_back({it->turn.id, ended});
    return turns_.erase(it);
  }

  void tell() {
    script_->turns = std::ssize(turns_);
    script_->sequences = std::ssize(sequences_);
    script_->held.clear();
    for (const auto& [id, s] : sequences_) {
      if (!has_turn(id)) script_->held.emplace(id, s.ids);
    }
    stats_.running = static_cast<std::int32_t>(turns_.size());
    stats_.sequences = static_cast<std::int32_t>(sequences_.size());
    script_->changed.notify_all();
  }

  std::shared_ptr<engine_script> script_;
  gpu::backend_info info_;
  gpu::engine_stats stats_;
  std::vector<record> turns_;
  std::map<gpu::sequence_id, sequence> sequences_;
  std::vector<gpu::turn_output> ended_;
  std::int64_t imported_ = 0;  ///< blocks
};

}  // namespace kvern::actors::test
