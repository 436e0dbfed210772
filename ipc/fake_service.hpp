#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "actors/service.hpp"

namespace kvern::ipc {

/// One generate() call that a test answers: it sends events and sees whether it was cancelled.
class fake_call {
 public:
  fake_call(peer who, generation_request r, std::shared_ptr<generation_sink> s)
      : from(who), request(std::move(r)), sink_(std::move(s)) {}

  void start(std::int64_t prompt_size = 3, cache_report cache = {}) {
    started_event e;
    for (std::int64_t i = 0; i < prompt_size; ++i) e.prompt.push_back(static_cast<token_id>(i + 10));
    if (cache.reused == 0 && cache.computed == 0) cache.computed = prompt_size;
    e.cache = cache;
    prompt_size_ = prompt_size;
    sink_->on_event(std::move(e));
  }
  void refuse(std::string code, std::string message = "refused") {
    sink_->on_event(refused_event{{std::move(code), std::move(message)}});
  }
  void progress(std::int64_t processed, std::int64_t total) { sink_->on_event(progress_event{processed, total}); }
  void text(std::string text) {
    generated_token t;
    t.token = static_cast<token_id>(50 + tokens_++ % 50);
    t.bytes = text;
    text_event e;
    e.text = std::move(text);
    e.tokens.push_back(std::move(t));
    sink_->on_event(std::move(e));
  }
  void send(generation_event e) { sink_->on_event(std::move(e)); }
  void end(gpu::finish_reason reason = gpu::finish_reason::stop, error why = {}) {
    end_event e;
    e.reason = reason;
    e.why = std::move(why);
    e.prompt_tokens = prompt_size_;
    e.completion_tokens = tokens_;
    e.queued_ms = 1;
    e.prompt_ms = 10;
    e.generate_ms = 20;
    sink_->on_event(std::move(e));
  }

  /// Whether the protocol cancelled it, within ten seconds.
  bool wait_cancelled() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [this] { return cancelled_; });
  }
  bool cancelled() const {
    const std::lock_guard lock(mutex_);
    return cancelled_;
  }
  void set_cancelled() {
    {
      const std::lock_guard lock(mutex_);
      cancelled_ = true;
    }
    changed_.notify_all();
  }

  const std::shared_ptr<generation_sink>& sink() const { return sink_; }

  const peer from;
  const generation_request request;

 private:
  std::shared_ptr<generation_sink> sink_;
  std::int64_t prompt_size_ = 0;
  std::int64_t tokens_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool cancelled_ = false;
};

/// A service for tests of the protocol. Generations wait for the test (next_call) unless `script` answers them; token i
/// is the byte i. Replies come at once, or wait in `held` while `hold` is set.
class fake_service final : public service {
 public:
  fake_service() {
    info.id = "tiny";
    info.architecture = "llama";
    info.file_type = "Q4_1";
    info.vocab = 256;
    info.context = 128;
    info.has_chat_template = true;
  }

  std::unique_ptr<generation> generate(const peer& who, generation_request request,
                                       std::shared_ptr<generation_sink> sink) override {
    auto call = std::make_shared<fake_call>(who, std::move(request), std::move(sink));
    if (script) {
      script(*call);
    } else {
      {
        const std::lock_guard lock(mutex_);
        calls_.push_back(call);
      }
      changed_.notify_all();
    }
    class handle final : public generation {
     public:
      explicit handle(std::shared_ptr<fake_call> c) : call_(std::move(c)) {}
      ~handle() override { call_->set_cancelled(); }
      void cancel() override { call_->set_cancelled(); }

     private:
      std::shared_ptr<fake_call> call_;
    };
    return std::make_unique<handle>(std::move(call));
  }

  /// The next generate() call, or nullptr after ten seconds.
  std::shared_ptr<fake_call> next_call() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(10), [this] { return !calls_.empty(); })) return nullptr;
    auto call = std::move(calls_.front());
    calls_.pop_front();
    return call;
  }

  void create_session(const peer& who, session_settings settings, reply<session_info> done) override {
    last_peer = who;
    last_settings = settings;
    session_info s;
    s.id = "s-1";
    s.created = 5;
    done(failure ? result<session_info>(std::unexpected(*failure)) : s);
  }
  void list_sessions(const peer&, reply<std::vector<session_info>> done) override {
    session_info s;
    s.id = "s-1";
    s.tokens = 7;
    s.last_validation = cache_report{3, 4, cache_reason::mismatch, 3, 2};
    done(std::vector<session_info>{s});
  }
  void get_session(const peer&, std::string id, reply<session_info> done) override {
    find(std::move(id), done, cached);
  }
  void delete_session(const peer&, std::string id, reply<session_info> done) override { find(std::move(id), done); }
  void cancel_session(const peer&, std::string id, reply<session_info> done) override { find(std::move(id), done); }

  void fork_session(const peer&, std::string id, std::optional<std::int64_t> count, reply<session_info> done) override {
    last_count = count;
    find(std::move(id), done);
  }
  void rewind_session(const peer&, std::string id, std::int64_t count, reply<rewound_session> done) override {
    last_count = count;
    if (failure) return done(std::unexpected(*failure));
    session_info s;
    s.id = std::move(id);
    s.tokens = count;
    done(rewound_session{std::move(s), count - 1});
  }
  void export_session(const peer&, std::string, reply<std::string> done) override {
    if (failure) return done(std::unexpected(*failure));
    if (!hold) return done(file);
    const std::lock_guard lock(mutex_);
    held.push_back([this, d = std::move(done)]() mutable { d(file); });
    changed_.notify_all();
  }
  void import_session(const peer&, std::string bytes, reply<session_info> done) override {
    file = std::move(bytes);
    if (failure) return done(std::unexpected(*failure));
    find("s-1", done);
  }
  std::uint64_t max_import_bytes() const override { return import_limit; }
  void explain(const peer&, std::string, kvern::prompt p, reply<explanation> done) override {
    last_prompt = std::move(p);
    done(failure ? result<explanation>(std::unexpected(*failure)) : explained);
  }

  void tokenize(text_prompt text, reply<std::vector<token_id>> done) override {
    std::vector<token_id> tokens;
    if (text.add_special) tokens.push_back(1);
    if (text.parse_special) tokens.push_back(2);
    for (const char c : text.text) tokens.push_back(static_cast<unsigned char>(c));
    if (hold) {
      const std::lock_guard lock(mutex_);
      held.push_back([d = std::move(done), tokens]() mutable { d(tokens); });
      changed_.notify_all();
      return;
    }
    done(std::move(tokens));
  }
  /// What begins with a space loses it, as SentencePiece texts do.
  void detokenize(std::vector<token_id> tokens, reply<std::string> done) override {
    std::string text;
    for (const token_id t : tokens) text += static_cast<char>(t);
    if (text.size() > 1 && text[0] == ' ') text.erase(0, 1);
    done(std::move(text));
  }
  void render(chat_prompt chat, reply<rendered> done) override {
    last_chat = std::move(chat);
    if (failure) {
      done(std::unexpected(*failure));
    } else {
      done(rendered{"<user>hi", {1, 2, 3}});
    }
  }

  std::string token_bytes(token_id id) const override { return id < 256 ? std::string(1, static_cast<char>(id)) : ""; }

  const model_info& model() const override { return info; }
  service_stats stats() const override { return numbers; }

  /// Waits until a reply is held; the caller runs or drops it.
  std::move_only_function<void()> take_held() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(10), [this] { return !held.empty(); })) return {};
    auto f = std::move(held.front());
    held.pop_front();
    return f;
  }

  model_info info;
  service_stats numbers;
  std::optional<error> failure;
  std::function<void(fake_call&)> script;
  bool hold = false;
  peer last_peer;
  chat_prompt last_chat;
  session_settings last_settings;
  std::optional<std::int64_t> last_count;
  kvern::prompt last_prompt;
  std::optional<gpu::sequence_info> cached;  ///< what get_session tells
  explanation explained;
  std::string file = "a file";
  std::uint64_t import_limit = 32u << 20;
  std::deque<std::move_only_function<void()>> held;

 private:
  static void find(std::string id, reply<session_info>& done, std::optional<gpu::sequence_info> cached = {}) {
    if (id != "s-1") {
      done(fail("session_not_found", "there is no such session"));
      return;
    }
    session_info s;
    s.id = std::move(id);
    s.cached = cached;
    done(std::move(s));
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<fake_call>> calls_;
};

}  // namespace kvern::ipc
