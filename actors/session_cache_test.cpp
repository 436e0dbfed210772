#include <gtest/gtest.h>

#include <cstring>

#include "actors/test_service.hpp"

namespace kvern::actors {
namespace {

using test::byte_tokenizer;
using test::bytes;
using test::tokens;

struct session_caches : test::service_fixture {
  std::string id;
  void begin_with(std::string text, session_settings settings = {}) {
    answer(std::move(text));
    start();
    id = new_session(alice, settings);
  }
  started_event turn(std::string prompt, const std::string& session) {
    return run(ask(std::move(prompt), session))->get<started_event>();
  }
  /// A prompt of tokens that stand in the way of nothing.
  static std::string long_text(std::size_t size) {
    std::string out;
    for (std::size_t i = 0; i < size; ++i) out += static_cast<char>('a' + i * i % 26);
    return out;
  }

  /// When the only session's turn is over: that it, the engine and `wanted` have the same tokens.
  void expect_tokens(const tokens& wanted) {
    EXPECT_TRUE(script->wait([&](auto& s) { return s.turns == 0 && s.held.size() == 1; }));
    // The answer comes after everything the session has told the worker.
    const auto info = get(alice, id).value();
    EXPECT_FALSE(info.running);
    ASSERT_TRUE(info.cached);
    EXPECT_EQ(info.tokens, std::ssize(wanted));
    EXPECT_EQ(info.cached->tokens, std::ssize(wanted));
    EXPECT_EQ(info.committed, info.cached->committed);
    script->set([&](auto& s) { EXPECT_EQ(s.held.begin()->second, wanted); });
  }
};

// ---- however a turn ends, session and engine have what the client has -------------------------------------------

TEST_F(session_caches, are_exact_after_an_end_token) {
  begin_with("xyz");
  run(ask("p", id));
  expect_tokens(bytes("pxyz"));
}

TEST_F(session_caches, show_no_more_lines_than_the_session_has_tokens) {
  answer_without_end();
  start();
  id = new_session();
  auto request = ask("abcd", id);
  request.exclude_tail = 2;
  auto r = begin(std::move(request));
  ASSERT_TRUE(r->wait_for<text_event>());
  const auto info = get(alice, id).value();
  EXPECT_TRUE(info.running);
  EXPECT_EQ(info.tokens, 2);
  ASSERT_TRUE(info.cached);
  EXPECT_GT(info.cached->tokens, 4);
  EXPECT_EQ(info.cached->committed, 2);
  EXPECT_EQ(info.cached->reusable, 2);
}

TEST_F(session_caches, are_exact_after_a_stop_string) {
  begin_with("one STOP two");
  auto request = ask("p", id);
  request.stop = {"STOP"};
  run(std::move(request));
  expect_tokens(bytes("pone "));
}

TEST_F(session_caches, are_exact_when_the_stop_string_is_the_last_the_engine_makes) {
  begin_with("one STOP");
  auto request = ask("p", id);
  request.stop = {"STOP"};
  request.max_tokens = 8;
  run(std::move(request));
  expect_tokens(bytes("pone "));
}

TEST_F(session_caches, are_exact_at_the_length) {
  begin_with("xyz");
  auto request = ask("p", id);
  request.max_tokens = 2;
  run(std::move(request));
  expect_tokens(bytes("pxy"));
}

TEST_F(session_caches, are_exact_after_a_cancellation) {
  answer_without_end();
  start();
  id = new_session();
  auto r = begin(ask("p", id));
  ASSERT_TRUE(r->wait_for<text_event>());
  ASSERT_TRUE(cancel(alice, id));
  ASSERT_TRUE(r->wait_finished());
  expect_tokens(bytes("p" + r->text()));
}

TEST_F(session_caches, are_exact_after_a_disconnect) {
  answer_without_end();
  start();
  id = new_session();
  auto r = begin(ask("p", id));
  ASSERT_TRUE(r->wait_for<text_event>());
  r.handle.reset();
  ASSERT_TRUE(r->wait_finished());
  expect_tokens(bytes("p" + r->text()));
}

TEST_F(session_caches, are_exact_when_a_sink_throws) {
  answer_without_end();
  start();
  id = new_session();
  auto sink = std::make_shared<test::recording_sink>();
  sink->throw_at = 3;  // started, progress, one text
  auto handle = service->generate(alice, ask("p", id), sink);
  ASSERT_TRUE(script->wait([](auto& s) { return s.submitted == 1 && s.turns == 0; }));
  while (get(id).running) {
  }
  expect_tokens(bytes("pa"));
}

TEST_F(session_caches, are_exact_after_an_error) {
  script->fail_at = 2;
  begin_with("xyz");
  const auto r = run(ask("p", id));
  EXPECT_EQ(r->get<end_event>().why.code, "scripted");
  expect_tokens(bytes("pxy"));
}

TEST_F(session_caches, are_exact_when_cancelled_before_the_session_knows_of_the_start) {
  answer_without_end();
  script->chunk = 2;
  start();
  id = new_session();
  auto first = ask("abc", id);
  first.max_tokens = 1;
  run(std::move(first));
  std::int64_t before = 0;
  script->set([&](auto& s) {
    s.permits = 0;
    before = s.arrived;
  });
  auto r = begin(ask("abXYZ", id));
  ASSERT_TRUE(script->wait([&](auto& s) { return s.submitted == 2 && s.arrived > before; }));
  r.handle->cancel();
  get(id);  // the session has passed it on
  script->go();
  ASSERT_TRUE(r->wait_finished());
  expect_tokens(bytes("abXY"));
}

TEST_F(session_caches, do_not_keep_a_tail_that_was_excluded) {
  begin_with("xyz");
  auto request = ask("conversation, aside", id);
  request.exclude_tail = 7;
  run(std::move(request));
  expect_tokens(bytes("conversation"));
  EXPECT_EQ(turn("conversation goes on", id).cache.reason, cache_reason::extends);
}

// ---- overflow ---------------------------------------------------------------------------------------------------

TEST_F(session_caches, refuse_an_answer_that_cannot_fit_by_default) {
  script->context = 10;
  begin_with("0123456789");
  auto request = ask("abcd", id);
  request.max_tokens = 7;
  EXPECT_EQ(run(request)->get<refused_event>().why.code, "context_length_exceeded");
  EXPECT_EQ(script->steps, 0);
  request.overflow = gpu::overflow_policy::stop;
  const auto end = run(std::move(request))->get<end_event>();
  EXPECT_EQ(end.reason, gpu::finish_reason::length);
  ASSERT_TRUE(end.overflow);
  EXPECT_EQ(end.overflow->policy, gpu::overflow_policy::stop);
}

TEST_F(session_caches, rotate_as_their_session_or_their_request_says) {
  script->context = 10;
  answer_without_end();
  start();
  id = new_session(alice, {gpu::overflow_policy::rotate, 4});
  const auto first = run(ask("abcd", id))->get<end_event>();
  EXPECT_EQ(script->last_turn.rotate_keep, 4);
  EXPECT_EQ(first.completion_tokens, 10);  // without a limit: what the context holds
  ASSERT_TRUE(first.overflow);
  EXPECT_EQ(first.overflow->policy, gpu::overflow_policy::rotate);
  EXPECT_EQ(first.overflow->keep, 4);
  EXPECT_EQ(first.overflow->forgotten, 4);
  const auto info = get(id);
  EXPECT_EQ(info.forgotten, 4);
  EXPECT_EQ(info.settings, (session_settings{gpu::overflow_policy::rotate, 4}));

  auto request = ask("abcd", id);
  request.keep = 2;
  request.max_tokens = 1;
  EXPECT_FALSE(run(request)->get<end_event>().overflow);
  EXPECT_EQ(script->last_turn.rotate_keep, 2);
  request.overflow = gpu::overflow_policy::stop;
  EXPECT_EQ(run(request)->get<refused_event>().why.code, "invalid_request");
  request.keep.reset();
  run(request);
  EXPECT_EQ(script->last_turn.overflow, gpu::overflow_policy::stop);
}

// ---- fork and rewind --------------------------------------------------------------------------------------------

TEST_F(session_caches, fork_into_two_that_go_on_alone) {
  begin_with("xy");
  turn("ab", id);
  const auto child = fork(alice, id).value();
  EXPECT_NE(child.id, id);
  EXPECT_EQ(child.tokens, 4);
  EXPECT_EQ(turn("abxy1", child.id).cache.reused, 4);
  EXPECT_EQ(turn("abxy2", id).cache.reason, cache_reason::extends);
  EXPECT_EQ(turn("abxy1xy3", child.id).cache.reason, cache_reason::extends);
  const auto part = fork(alice, id, 3).value();
  EXPECT_EQ(part.tokens, 3);
  EXPECT_EQ(turn("abxQ", part.id).cache.reused, 3);
  EXPECT_EQ(fork(alice, id, 0)->tokens, 0);
  EXPECT_EQ(fork(alice, new_session())->tokens, 0);
  EXPECT_EQ(fork(alice, id, 100).error().code, "invalid_request");
  EXPECT_EQ(fork(bob, id).error().code, "session_not_found");
  EXPECT_TRUE(remove(alice, id));
  EXPECT_EQ(turn("abxy1xy3xy4", child.id).cache.reason, cache_reason::extends);
}

TEST_F(session_caches, fork_while_they_run_into_what_was_sent) {
  answer_without_end();
  start();
  id = new_session(alice, {gpu::overflow_policy::rotate, 3});
  script->allow(5);
  auto r = begin(ask("p", id));
  ASSERT_TRUE(r->wait_text("aaaaa"));
  std::promise<result<session_info>> promise;
  service->fork_session(alice, id, {}, [&](result<session_info> s) { promise.set_value(std::move(s)); });
  get(id);  // it has asked the worker
  script->allow(1);
  const auto child = promise.get_future().get();
  ASSERT_TRUE(child);
  EXPECT_EQ(child->tokens, 6);
  EXPECT_EQ(child->settings, (session_settings{gpu::overflow_policy::rotate, 3}));
  r.handle->cancel();
  script->go();
  ASSERT_TRUE(r->wait_finished());
  answer("k");
  EXPECT_EQ(turn("paaaaa!", child->id).cache.reason, cache_reason::extends);
}

TEST_F(session_caches, a_fork_that_fails_leaves_no_session) {
  begin_with("xy");
  turn("ab", id);
  EXPECT_FALSE(fork(alice, id, 5));
  while (list(alice)->size() > 1) {
  }
  EXPECT_EQ(get(id).tokens, 4);
}

TEST_F(session_caches, rewind_to_a_length) {
  begin_with("xy");
  EXPECT_EQ(rewind(alice, id, 0)->reusable, 0);
  turn("abcdef", id);
  const auto back = rewind(alice, id, 4).value();
  EXPECT_EQ(back.session.tokens, 4);
  EXPECT_EQ(back.reusable, 4);
  expect_tokens(bytes("abcd"));
  EXPECT_EQ(turn("abcdXX", id).cache.reused, 4);
  EXPECT_EQ(rewind(alice, id, 9).error().code, "invalid_request");
  EXPECT_EQ(rewind(alice, id, -1).error().code, "invalid_request");
  EXPECT_EQ(rewind(bob, id, 0).error().code, "session_not_found");
  EXPECT_EQ(rewind(alice, id, 0)->session.tokens, 0);
  EXPECT_EQ(turn("abcd", id).cache.reason, cache_reason::empty);
}

TEST_F(session_caches, are_not_rewound_or_exported_while_they_run) {
  answer_without_end();
  start();
  id = new_session();
  auto r = begin(ask("p", id));
  ASSERT_TRUE(r->wait_for<text_event>());
  EXPECT_EQ(rewind(alice, id, 0).error().code, "session_busy");
  EXPECT_EQ(file_of(alice, id).error().code, "session_busy");
}

// ---- export and import ------------------------------------------------------------------------------------------

TEST_F(session_caches, come_back_from_a_file_with_all_their_lines) {
  begin_with("xy", {gpu::overflow_policy::stop, 0});
  const auto text = long_text(10'000);  // more bytes of lines than one message takes
  turn(text, id);
  const auto file = file_of(alice, id);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_LE(file->size(), service->max_import_bytes());
  const auto back = import(bob, *file);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->tokens, 10'002);
  const auto r = begin(bob, ask(text + "xy!", back->id));
  ASSERT_TRUE(r->wait_finished());
  EXPECT_EQ(r->get<started_event>().cache.reused, 10'002);
  // The exported session goes on too.
  EXPECT_EQ(turn(text + "xy?", id).cache.reused, 10'002);
}

TEST_F(session_caches, come_back_empty_when_they_were) {
  begin_with("xy");
  const auto file = file_of(alice, id);
  ASSERT_TRUE(file);
  const auto back = import(alice, *file);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->tokens, 0);
  EXPECT_EQ(turn("ab", back->id).cache.reason, cache_reason::empty);
}

TEST_F(session_caches, do_not_come_back_from_a_broken_file) {
  begin_with("xy");
  turn(long_text(100), id);
  auto file = file_of(alice, id).value();
  EXPECT_EQ(import(alice, file.substr(0, file.size() / 2)).error().code, "invalid_session_file");
  EXPECT_EQ(import(alice, "").error().code, "invalid_session_file");
  const auto model = file.find("00ff");
  ASSERT_NE(model, std::string::npos);
  file[model] = '1';
  EXPECT_EQ(import(alice, file).error().code, "session_file_mismatch");
  EXPECT_EQ(list(alice)->size(), 1u);
  EXPECT_EQ(script->sequences, 1);
}

// ---- explain ----------------------------------------------------------------------------------------------------

TEST_F(session_caches, explain_a_prompt_and_change_nothing) {
  begin_with("xy");
  EXPECT_EQ(explain(alice, id, text_prompt{"ab", false, false})->cache.reason, cache_reason::empty);
  turn("abcdef", id);
  auto e = explain(alice, id, text_prompt{"abcdefxy!", false, false}).value();
  EXPECT_EQ(e.cache.reason, cache_reason::extends);
  EXPECT_EQ(e.cache.reused, 8);
  EXPECT_EQ(e.cache.computed, 1);
  EXPECT_FALSE(e.first_divergence);
  e = explain(alice, id, text_prompt{"abcXef", false, false}).value();
  EXPECT_EQ(e.cache.reason, cache_reason::mismatch);
  EXPECT_EQ(e.cache.reused, 3);
  ASSERT_TRUE(e.first_divergence);
  EXPECT_EQ(e.first_divergence->position, 3);
  EXPECT_EQ(e.first_divergence->cached_token, 'd');
  EXPECT_EQ(e.first_divergence->prompt_token, 'X');
  EXPECT_EQ(e.first_divergence->cached_text, "abcdefxy");
  EXPECT_EQ(e.first_divergence->prompt_text, "abcXef");
  EXPECT_FALSE(e.message);
  EXPECT_EQ(explain(bob, id, text_prompt{"ab", false, false}).error().code, "session_not_found");
  EXPECT_EQ(explain(alice, id, tokens{9999}).error().code, "invalid_request");
  // Also what the scribe has to read.
  EXPECT_EQ(explain(alice, id, text_prompt{"abcdefxy" + long_text(100'000), false, false})->cache.reason,
            cache_reason::extends);
  EXPECT_EQ(get(id).turns, 1);
  expect_tokens(bytes("abcdefxy"));
}

TEST_F(session_caches, explain_which_message_changed) {
  begin_with("");
  const auto chat = [](std::vector<std::string> contents) {
    chat::array messages;
    for (auto& content : contents) messages.push_back(chat::object{{"role", "user"}, {"content", std::move(content)}});
    return chat_prompt{chat::value(std::move(messages)), {}, {}, true};
  };
  auto request = ask("", id);
  request.prompt = chat({"one", "two", "three", "four"});
  run(std::move(request));
  EXPECT_EQ(explain(alice, id, chat({"One", "two", "three", "four"}))->message, 0);
  EXPECT_EQ(explain(alice, id, chat({"one", "two", "thrEe", "four"}))->message, 2);
  EXPECT_EQ(explain(alice, id, chat({"one", "two", "three", "fouR"}))->message, 3);
  EXPECT_EQ(explain(alice, id, chat({"one", "two", "three", "four", "five"}))->message, std::nullopt);
}

}  // namespace
}  // namespace kvern::actors
