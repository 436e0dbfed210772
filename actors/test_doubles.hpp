#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
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

/// Remembers the events of one request and checks their order.
class recording_sink : public generation_sink {
 public:
  void on_event(generation_event event) override {
    const std::lock_guard lock(mutex_);
    if (std::ssize(events_) == throw_at) throw std::runtime_error("the sink is gone");
    if (finished()) out_of_order_ = true;
    const bool opens = std::holds_alternative<started_event>(event) || std::holds_alternative<refused_event>(event);
    if (opens != events_.empty()) out_of_order_ = true;
    finished_ = finished_ || std::holds_alternative<end_event>(event) || std::holds_alternative<refused_event>(event);
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
  bool finished() const { return finished_; }
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
  bool finished_ = false;
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
