#pragma once

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "actors/scripted_engine.hpp"
#include "actors/system.hpp"
#include "actors/test_doubles.hpp"

namespace kvern::actors::test {

/// A service over a scripted engine.
struct service_fixture : testing::Test {
  std::shared_ptr<engine_script> script = std::make_shared<engine_script>();
  std::shared_ptr<byte_tokenizer> vocabulary = std::make_shared<byte_tokenizer>();
  std::shared_ptr<plain_template> chat_template = std::make_shared<plain_template>();
  std::int32_t max_sessions = 1024;
  int pool_threads = 2;
  std::chrono::milliseconds patience = limit;
  std::shared_ptr<actors::system> service;
  peer alice{.uid = 1000, .gid = 1000, .pid = 1};
  peer bob{.uid = 1001, .gid = 1001, .pid = 2};

  /// What every answer is: these bytes, then the end token.
  void answer(std::string text) {
    script->next = [text = std::move(text)](auto, std::int64_t n) {
      const auto at = static_cast<std::size_t>(n);
      return at < text.size() ? token_id{static_cast<unsigned char>(text[at])} : byte_tokenizer::eos_id;
    };
  }

  /// Every answer goes on for ever.
  void answer_without_end() {
    script->next = [](auto, auto) { return 'a'; };
  }

  void start() {
    system_options options;
    options.engine = std::make_unique<scripted_engine>(script);
    options.tokens = vocabulary;
    options.chat_template = chat_template;
    options.model.id = "scripted";
    options.model.fingerprint = "00ff";
    options.fingerprint = "scripted engine";
    options.cache.kv_type = "f16";
    options.threads = 3;
    options.max_sessions_per_tenant = max_sessions;
    options.pool_threads = pool_threads;
    options.patience = patience;
    service = actors::system::start(std::move(options));
  }

  void TearDown() override {
    script->go();
    service.reset();
    EXPECT_EQ(script->wrong_keeps, 0);
    EXPECT_EQ(script->wrong_lines, 0);
    EXPECT_TRUE(script->wait([](auto& s) { return s.destroyed; }));
  }

  /// A request for the bytes of `text`, without BOS.
  static generation_request ask(std::string text, std::string session = {}) {
    generation_request request;
    request.prompt = text_prompt{std::move(text), false, false};
    request.session = std::move(session);
    return request;
  }

  struct running {
    std::shared_ptr<recording_sink> sink = std::make_shared<recording_sink>();
    std::unique_ptr<generation> handle;
    recording_sink* operator->() const { return sink.get(); }
  };

  running begin(const peer& who, generation_request request) {
    running r;
    r.handle = service->generate(who, std::move(request), r.sink);
    return r;
  }
  running begin(generation_request request) { return begin(alice, std::move(request)); }

  /// Begins a request whose first step waits for the script's permit.
  running begin_held(generation_request request) {
    script->hold();
    auto r = begin(std::move(request));
    EXPECT_TRUE(script->wait([](auto& s) { return s.arrived == 1; }));
    return r;
  }

  /// Runs a request to its end.
  running run(generation_request request) {
    auto r = begin(std::move(request));
    EXPECT_TRUE(r->wait_finished());
    EXPECT_TRUE(r->in_order());
    return r;
  }

  /// Calls a function of the service and waits for its reply.
  template <class T, class F>
  static result<T> wait(F call) {
    std::promise<result<T>> promise;
    auto future = promise.get_future();
    call(reply<T>([&promise](result<T> r) { promise.set_value(std::move(r)); }));
    return future.get();
  }
  std::string new_session(const peer& who, session_settings settings = {}) { return create(who, settings).value().id; }
  result<session_info> create(const peer& who, session_settings settings = {}) {
    return wait<session_info>([&](auto done) { service->create_session(who, settings, std::move(done)); });
  }
  std::string new_session() { return new_session(alice); }
  result<session_info> get(const peer& who, const std::string& id) {
    return wait<session_info>([&](auto done) { service->get_session(who, id, std::move(done)); });
  }
  /// What the session knows itself: the worker is not asked, which may be held.
  session_info get(const std::string& id) {
    const auto all = list(alice).value();
    const auto found = std::ranges::find(all, id, &session_info::id);
    return found == all.end() ? session_info() : *found;
  }
  result<session_info> fork(const peer& who, const std::string& id, std::optional<std::int64_t> count = {}) {
    return wait<session_info>([&](auto done) { service->fork_session(who, id, count, std::move(done)); });
  }
  result<rewound_session> rewind(const peer& who, const std::string& id, std::int64_t count) {
    return wait<rewound_session>([&](auto done) { service->rewind_session(who, id, count, std::move(done)); });
  }
  result<std::string> file_of(const peer& who, const std::string& id) {
    return wait<std::string>([&](auto done) { service->export_session(who, id, std::move(done)); });
  }
  result<session_info> import(const peer& who, std::string file) {
    return wait<session_info>([&](auto done) { service->import_session(who, std::move(file), std::move(done)); });
  }
  result<explanation> explain(const peer& who, const std::string& id, prompt p) {
    return wait<explanation>([&](auto done) { service->explain(who, id, std::move(p), std::move(done)); });
  }
  result<session_info> remove(const peer& who, const std::string& id) {
    return wait<session_info>([&](auto done) { service->delete_session(who, id, std::move(done)); });
  }
  result<session_info> cancel(const peer& who, const std::string& id) {
    return wait<session_info>([&](auto done) { service->cancel_session(who, id, std::move(done)); });
  }
  result<std::vector<session_info>> list(const peer& who) {
    return wait<std::vector<session_info>>([&](auto done) { service->list_sessions(who, std::move(done)); });
  }
};

}  // namespace kvern::actors::test
