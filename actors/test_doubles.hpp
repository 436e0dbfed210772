#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/service.hpp"
#include "gpu/engine/engine.hpp"
#include "model/chat/chat_template.hpp"
#include "model/tokenizer/tokenizer.hpp"

/// Stand-ins that the tests of this folder share: a tokenizer of bytes, an engine that does what it is told, a sink
/// that remembers.
namespace kvern::actors::test {

using namespace std::chrono_literals;
using tokens = std::vector<token_id>;

/// How long a test waits for what must come.
inline constexpr auto limit = 60s;

/// Token ids 0 to 255 are bytes; then come control tokens and a few pieces of several bytes.
class byte_tokenizer : public tokenizer {
 public:
  static constexpr token_id bos_id = 256, eos_id = 257, user_id = 258, first_piece = 259;
  bool has_bos = true;
  bool adds = true;
  std::vector<std::string> pieces;                                ///< of ids from `first_piece`
  std::function<void(std::string_view)> on_encode = [](auto) {};  ///< runs before each segment is encoded

  std::vector<token_id> encode(std::span<const text_segment> segments, bool add_special) const override {
    tokens out;
    if (add_special && adds) out.push_back(bos_id);
    for (const auto& segment : segments) {
      on_encode(segment.text);
      for (std::size_t at = 0; at < segment.text.size();) {
        token_id found = static_cast<unsigned char>(segment.text[at]);
        std::size_t length = 1;
        for (const auto control : {bos_id, eos_id, user_id}) {
          if (!segment.trusted || segment.text.compare(at, text(control).size(), text(control)) != 0) continue;
          found = control;
          length = text(control).size();
        }
        out.push_back(found);
        at += length;
      }
    }
    return out;
  }
  std::string piece(token_id id, bool special) const override {
    if (id < 0 || id >= vocab_size()) return {};
    if (id < 256) return std::string(1, static_cast<char>(id));
    if (id >= first_piece) return pieces[static_cast<std::size_t>(id - first_piece)];
    return special ? std::string(text(id)) : std::string();
  }
  std::string decode(std::span<const token_id> ids, bool special) const override {
    std::string out;
    for (const auto id : ids) out += piece(id, special);
    return out;
  }
  std::int32_t vocab_size() const override { return first_piece + static_cast<std::int32_t>(pieces.size()); }
  token_kind kind(token_id id) const override {
    return id >= bos_id && id < first_piece ? token_kind::control : token_kind::normal;
  }
  std::optional<token_id> bos() const override { return has_bos ? std::optional(bos_id) : std::nullopt; }
  std::optional<token_id> eos() const override { return eos_id; }
  bool adds_bos() const override { return adds; }
  bool is_end(token_id id) const override { return id == eos_id; }
  std::string_view text(token_id id) const override {
    switch (id) {
      case bos_id:
        return "<s>";
      case eos_id:
        return "</s>";
      case user_id:
        return "<|user|>";
      default:
        return {};
    }
  }
};

/// The tokens of a text in the byte tokenizer.
inline tokens bytes(std::string_view text) {
  tokens out;
  for (const char c : text) out.push_back(static_cast<unsigned char>(c));
  return out;
}

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

  std::mutex mutex;
  std::condition_variable changed;
  std::int64_t permits = -1;  ///< steps it may still do; -1: any number
  bool fails = false;         ///< the next step throws
  std::int64_t arrived = 0;   ///< times a step began
  std::int64_t steps = 0;     ///< done
  std::int64_t submitted = 0;
  std::int64_t started = 0;
  std::int64_t turns = 0;        ///< there now
  std::int64_t sequences = 0;    ///< there now
  std::int64_t wrong_keeps = 0;  ///< turns that would have kept tokens that are not the prompt's
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
/// without permit waits for one, as a long step would.
class scripted_engine : public gpu::engine {
 public:
  explicit scripted_engine(std::shared_ptr<engine_script> script) : script_(std::move(script)) {
    info_.vocab = 300;
    info_.context = script_->context;
    info_.kernels = "scripted";
  }
  ~scripted_engine() override {
    script_->set([](auto& s) { s.destroyed = true; });
  }

  result<void> submit(gpu::turn t) override {
    const std::lock_guard lock(script_->mutex);
    const auto same = std::ranges::find(turns_, t.sequence, [](const auto& r) { return r.turn.sequence; });
    if (same != turns_.end()) return fail("busy", "The sequence has a turn.");
    if (turns_.size() >= script_->max_queued) return fail("queue_full", "Too many turns wait.");
    if (std::ssize(t.prompt) >= info_.context) return fail("context_length_exceeded", "The prompt is too long.");
    auto& known = sequences_[t.sequence];
    const auto kept = static_cast<std::size_t>(t.keep);
    const bool right = kept < t.prompt.size() && kept <= known.ids.size() &&
                       std::equal(t.prompt.begin(), t.prompt.begin() + t.keep, known.ids.begin());
    if (!right) script_->wrong_keeps += 1;
    turns_.push_back({std::move(t)});
    script_->submitted += 1;
    tell();
    return {};
  }

  void cancel(gpu::turn_id id) override {
    const std::lock_guard lock(script_->mutex);
    const auto found = std::ranges::find(turns_, id, [](const auto& r) { return r.turn.id; });
    if (found != turns_.end()) end(found, gpu::finish_reason::cancelled);
    tell();
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
  struct record {
    gpu::turn turn;
    std::int64_t processed = -1;  ///< -1: queued
    std::int64_t generated = 0;
  };
  struct lines {
    tokens ids;
    std::int64_t committed = 0;
  };
  using place = std::vector<record>::iterator;

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
    const auto token = script_->next(s.ids, generated++);
    s.ids.push_back(token);
    const bool is_end = token == byte_tokenizer::eos_id;
    token_logprob logprob;
    if (turn.logprobs >= 0) logprob.logprob = -0.5;
    outputs.push_back({id, gpu::turn_token{token, is_end, logprob}});
    stats_.generated_tokens += 1;
    if (is_end && !turn.ignore_eos) return end(it, gpu::finish_reason::stop);
    if (generated == turn.max_tokens || std::ssize(s.ids) >= info_.context) return end(it, gpu::finish_reason::length);
    return it + 1;
  }

  place end(place it, gpu::finish_reason reason) {
    gpu::turn_ended ended;
    ended.reason = reason;
    ended.committed = sequences_[it->turn.sequence].committed;
    ended.generate_ms = 1;
    ended_.push_back({it->turn.id, ended});
    return turns_.erase(it);
  }

  void tell() {
    script_->turns = std::ssize(turns_);
    script_->sequences = std::ssize(sequences_);
    stats_.running = static_cast<std::int32_t>(turns_.size());
    stats_.sequences = static_cast<std::int32_t>(sequences_.size());
    script_->changed.notify_all();
  }

  std::shared_ptr<engine_script> script_;
  gpu::backend_info info_;
  gpu::engine_stats stats_;
  std::vector<record> turns_;
  std::map<gpu::sequence_id, lines> sequences_;
  std::vector<gpu::turn_output> ended_;
};

/// Remembers the events of one request and checks their order.
class recording_sink : public generation_sink {
 public:
  void on_event(generation_event event) override {
    const std::lock_guard lock(mutex_);
    if (std::ssize(events_) == throw_at) throw std::runtime_error("the sink is gone");
    if (finished()) out_of_order_ = true;
    const bool opens = std::holds_alternative<started_event>(event) || std::holds_alternative<refused_event>(event);
    if (opens != events_.empty()) out_of_order_ = true;
    events_.push_back(std::move(event));
    changed_.notify_all();
  }

  std::int64_t throw_at = -1;  ///< throws instead of taking this event

  bool wait_finished() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return finished(); });
  }
  template <class T>
  bool wait_for() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return count<T>() > 0; });
  }
  bool wait_text(std::string_view wanted) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return joined() == wanted; });
  }
  bool in_order() const {
    const std::lock_guard lock(mutex_);
    return !out_of_order_;
  }
  bool empty() const {
    const std::lock_guard lock(mutex_);
    return events_.empty();
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return joined();
  }
  tokens generated() const {
    const std::lock_guard lock(mutex_);
    tokens out;
    for (const auto& event : events_) {
      const auto* text = std::get_if<text_event>(&event);
      if (!text) continue;
      for (const auto& token : text->tokens) out.push_back(token.token);
    }
    return out;
  }
  /// The only event of its kind, or a default one.
  template <class T>
  T get() const {
    const std::lock_guard lock(mutex_);
    for (const auto& event : events_) {
      if (const auto* found = std::get_if<T>(&event)) return *found;
    }
    return {};
  }
  template <class T>
  std::vector<T> all() const {
    const std::lock_guard lock(mutex_);
    std::vector<T> out;
    for (const auto& event : events_) {
      if (const auto* found = std::get_if<T>(&event)) out.push_back(*found);
    }
    return out;
  }

 private:
  template <class T>
  std::int64_t count() const {
    return std::ranges::count_if(events_, [](const auto& e) { return std::holds_alternative<T>(e); });
  }
  bool finished() const { return count<end_event>() + count<refused_event>() > 0; }
  std::string joined() const {
    std::string out;
    for (const auto& event : events_) {
      if (const auto* text = std::get_if<text_event>(&event)) out += text->text;
    }
    return out;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<generation_event> events_;
  bool out_of_order_ = false;
};

/// Renders messages as "<|user|>content" each, or says what it is told to.
class plain_template : public chat::chat_template {
 public:
  std::optional<error> refuses;
  bool writes_bos = false;

  result<std::vector<chat::rendered_part>> render(const chat::value& context, const chat::render_limits&,
                                                  std::int64_t) const override {
    if (refuses) return std::unexpected(*refuses);
    std::vector<chat::rendered_part> out;
    if (writes_bos) out.push_back({"<s>", true});
    for (const auto& [key, value] : *context.as_object()) {
      if (key != "messages" || !value.as_array()) continue;
      for (const auto& message : *value.as_array()) {
        for (const auto& [name, content] : *message.as_object()) {
          if (name != "content") continue;
          out.push_back({"<|user|>", true});
          out.push_back({*content.as_string(), false});
        }
      }
    }
    return out;
  }
};

}  // namespace kvern::actors::test
