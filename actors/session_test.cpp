#include "actors/session.hpp"

#include <gtest/gtest.h>

#include "actors/test_service.hpp"

namespace kvern::actors {
namespace {

using test::byte_tokenizer;
using test::bytes;
using test::tokens;

struct sessions : test::service_fixture {
  std::string id;
  void begin_with(std::string text) {
    answer(std::move(text));
    start();
    id = new_session();
  }
  started_event turn(std::string prompt) { return run(ask(std::move(prompt), id))->get<started_event>(); }
  session_info idle() {
    // Replies come through the session itself, so what it did before is visible.
    return get(id);
  }
};

TEST_F(sessions, every_cache_reason_over_a_conversation) {
  begin_with("xy");
  auto cache = turn("ab").cache;
  EXPECT_EQ(cache.reason, cache_reason::empty);
  EXPECT_EQ(cache.reused, 0);
  EXPECT_EQ(cache.computed, 2);
  EXPECT_EQ(idle().tokens, 4);  // ab, xy

  cache = turn("abxycd").cache;
  EXPECT_EQ(cache.reason, cache_reason::extends);
  EXPECT_EQ(cache.reused, 4);
  EXPECT_EQ(cache.computed, 2);

  cache = turn("abxycdxy").cache;
  EXPECT_EQ(cache.reason, cache_reason::same);
  EXPECT_EQ(cache.reused, 7);
  EXPECT_EQ(cache.computed, 1);
  EXPECT_FALSE(cache.first_divergence);

  cache = turn("abx").cache;
  EXPECT_EQ(cache.reason, cache_reason::shorter);
  EXPECT_EQ(cache.reused, 2);

  cache = turn("abX").cache;
  EXPECT_EQ(cache.reason, cache_reason::mismatch);
  EXPECT_EQ(cache.first_divergence, 2);
  EXPECT_EQ(cache.reused, 2);

  const auto info = idle();
  EXPECT_EQ(info.turns, 5);
  EXPECT_EQ(info.tokens, 5);
  EXPECT_FALSE(info.running);
  ASSERT_TRUE(info.last_validation);
  EXPECT_EQ(info.last_validation->reason, cache_reason::mismatch);
  EXPECT_EQ(script->sequences, 1);
}

TEST_F(sessions, a_stop_string_cuts_the_history_to_what_was_sent) {
  begin_with("one STOP two");
  auto request = ask("p", id);
  request.stop = {"STOP"};
  const auto r = run(std::move(request));
  EXPECT_EQ(r->text(), "one ");
  EXPECT_EQ(r->get<end_event>().reason, gpu::finish_reason::stop);
  EXPECT_EQ(r->get<end_event>().stop_string, "STOP");
  EXPECT_EQ(idle().tokens, 5);
  EXPECT_EQ(turn("pone more").cache.reused, 5);
}

TEST_F(sessions, length_ends_inside_a_character) {
  begin_with("a\xF0\x9F\x98\x80");
  auto request = ask("p", id);
  request.max_tokens = 3;
  const auto r = run(std::move(request));
  EXPECT_EQ(r->text(), "a\xEF\xBF\xBD");
  EXPECT_EQ(r->get<end_event>().reason, gpu::finish_reason::length);
  EXPECT_EQ(r->get<end_event>().completion_tokens, 3);
  EXPECT_EQ(idle().tokens, 4);
}

TEST_F(sessions, characters_over_tokens_arrive_whole) {
  begin_with("\xF0\x9F\x98\x80 caf\xC3\xA9");
  const auto r = run(ask("p", id));
  EXPECT_EQ(r->text(), "\xF0\x9F\x98\x80 caf\xC3\xA9");
  for (const auto& event : r->all<text_event>()) EXPECT_NE(event.text, "\xEF\xBF\xBD");
  EXPECT_EQ(r->generated(), bytes("\xF0\x9F\x98\x80 caf\xC3\xA9"));
}

TEST_F(sessions, a_cancelled_turn_leaves_what_was_sent) {
  answer_without_end();
  start();
  id = new_session();
  script->allow(3);
  auto r = begin(ask("p", id));
  ASSERT_TRUE(r->wait_text("aaa"));
  EXPECT_TRUE(idle().running);
  r.handle->cancel();
  // The session passes the cancellation on before it answers.
  idle();
  script->go();
  ASSERT_TRUE(r->wait_finished());
  EXPECT_EQ(r->get<end_event>().reason, gpu::finish_reason::cancelled);
  const auto info = idle();
  EXPECT_FALSE(info.running);
  EXPECT_EQ(info.tokens, 1 + static_cast<std::int64_t>(r->generated().size()));
  EXPECT_EQ(r->text(), std::string(r->generated().size(), 'a'));
  EXPECT_LE(info.committed, info.tokens);
  answer("b");
  const auto next = turn("p" + r->text() + "!");
  EXPECT_EQ(next.cache.reason, cache_reason::extends);
}

TEST_F(sessions, a_client_that_leaves_frees_the_slot) {
  answer_without_end();
  start();
  id = new_session();
  auto r = begin(ask("p", id));
  ASSERT_TRUE(r->wait_for<text_event>());
  r.handle.reset();
  ASSERT_TRUE(r->wait_finished());
  EXPECT_TRUE(script->wait([](auto& s) { return s.turns == 0; }));
  EXPECT_EQ(r->get<end_event>().reason, gpu::finish_reason::cancelled);
  EXPECT_EQ(idle().tokens, 1 + static_cast<std::int64_t>(r->generated().size()));
}

TEST_F(sessions, a_sink_that_throws_frees_the_slot) {
  answer_without_end();
  start();
  id = new_session();
  auto sink = std::make_shared<test::recording_sink>();
  sink->throw_at = 3;  // started, progress, one text
  auto handle = service->generate(alice, ask("p", id), sink);
  EXPECT_TRUE(script->wait([](auto& s) { return s.submitted == 1 && s.turns == 0; }));
  while (idle().running) {
  }
  EXPECT_EQ(idle().tokens, 2);
  EXPECT_EQ(sink->text(), "a");
}

TEST_F(sessions, one_turn_at_a_time) {
  begin_with("x");
  script->hold();
  auto first = begin(ask("p", id));
  auto second = begin(ask("q", id));
  ASSERT_TRUE(second->wait_finished());
  EXPECT_EQ(second->get<refused_event>().why.code, "session_busy");
  script->go();
  ASSERT_TRUE(first->wait_finished());
  EXPECT_EQ(first->text(), "x");
  EXPECT_EQ(run(ask("q", id))->text(), "x");
}

TEST_F(sessions, a_turn_may_follow_the_last_event_at_once) {
  begin_with("x");
  std::string prompt = "p";
  for (int i = 0; i < 100; ++i) {
    const auto r = run(ask(prompt, id));
    ASSERT_EQ(r->text(), "x");
    prompt += "xq";
  }
}

TEST_F(sessions, refusals_leave_the_session_as_it_was) {
  script->context = 10;
  begin_with("x");
  run(ask("ab", id));
  const auto code = [&](generation_request request) { return run(std::move(request))->get<refused_event>().why.code; };
  EXPECT_EQ(code(ask(std::string(10, 'q'), id)), "context_length_exceeded");
  auto request = ask("q", id);
  request.stop = {""};
  EXPECT_EQ(code(std::move(request)), "invalid_request");
  request = ask("", id);
  request.prompt = tokens{400};
  EXPECT_EQ(code(std::move(request)), "invalid_request");
  chat_template->refuses = error{"template_raised", "No system role"};
  request = ask("", id);
  request.prompt = chat_prompt{chat::array{}, {}, {}, true};
  const auto refused = run(std::move(request))->get<refused_event>().why;
  EXPECT_EQ(refused, (error{"template_error", "No system role"}));
  const auto info = idle();
  EXPECT_EQ(info.tokens, 3);
  EXPECT_EQ(info.turns, 1);
  EXPECT_FALSE(info.running);
  EXPECT_EQ(service->stats().refused, 4);
  EXPECT_EQ(service->stats().requests, 5);
}

TEST_F(sessions, a_conversation_in_messages_extends) {
  begin_with("ok");
  const auto say = [](std::vector<std::string> contents) {
    chat::array messages;
    for (auto& content : contents) messages.push_back(chat::object{{"role", "user"}, {"content", std::move(content)}});
    generation_request request;
    request.prompt = chat_prompt{chat::value(std::move(messages)), {}, {}, true};
    return request;
  };
  auto request = say({"hi"});
  request.session = id;
  const auto first = run(std::move(request))->get<started_event>();
  EXPECT_EQ(first.prompt.front(), byte_tokenizer::bos_id);
  EXPECT_EQ(std::ranges::count(first.prompt, byte_tokenizer::bos_id), 1);
  request = say({"hiok", "more"});
  request.session = id;
  const auto second = run(std::move(request))->get<started_event>();
  EXPECT_EQ(second.cache.reason, cache_reason::extends);
  EXPECT_EQ(second.cache.reused, std::ssize(first.prompt) + 2);
  EXPECT_EQ(std::ranges::count(second.prompt, byte_tokenizer::bos_id), 1);
}

TEST_F(sessions, log_probabilities_arrive_with_their_tokens) {
  begin_with("ab");
  auto request = ask("p", id);
  request.logprobs = 0;
  const auto r = run(std::move(request));
  for (const auto& event : r->all<text_event>()) {
    ASSERT_EQ(event.tokens.size(), 1u);
    EXPECT_EQ(event.tokens[0].logprob.logprob, -0.5);
    EXPECT_EQ(event.tokens[0].bytes, event.text);
  }
}

TEST_F(sessions, cancelling_by_name) {
  answer_without_end();
  start();
  id = new_session();
  auto r = begin(ask("p", id));
  ASSERT_TRUE(r->wait_for<text_event>());
  EXPECT_TRUE(cancel(alice, id).has_value());
  ASSERT_TRUE(r->wait_finished());
  EXPECT_EQ(r->get<end_event>().reason, gpu::finish_reason::cancelled);
  EXPECT_FALSE(idle().running);
  EXPECT_TRUE(cancel(alice, id).has_value());
}

TEST_F(sessions, cancelled_in_its_prompt_and_in_the_queue) {
  answer_without_end();
  script->chunk = 1;
  script->max_running = 1;
  start();
  id = new_session();
  script->allow(2);
  auto in_prompt = begin(ask("pppppppp", id));
  ASSERT_TRUE(script->wait([](auto& s) { return s.started == 1; }));
  const auto other = new_session();
  auto queued = begin(ask("q", other));
  ASSERT_TRUE(in_prompt->wait_for<progress_event>());
  in_prompt.handle->cancel();
  queued.handle->cancel();
  // The answers come after the sessions have told the worker, which takes it before its next step.
  get(id);
  get(other);
  script->go();
  ASSERT_TRUE(in_prompt->wait_finished());
  ASSERT_TRUE(queued->wait_finished());
  EXPECT_TRUE(in_prompt->in_order());
  EXPECT_TRUE(queued->in_order());
  EXPECT_EQ(in_prompt->get<end_event>().reason, gpu::finish_reason::cancelled);
  EXPECT_EQ(queued->get<end_event>().reason, gpu::finish_reason::cancelled);
  EXPECT_EQ(in_prompt->text(), "");
  EXPECT_EQ(queued->text(), "");
  EXPECT_TRUE(script->wait([](auto& s) { return s.turns == 0; }));
  EXPECT_EQ(script->started, 1);
}

TEST_F(sessions, dropped_while_it_waited_for_the_pool_it_never_reaches_the_worker) {
  std::promise<void> may_go;
  vocabulary->on_encode = [gate = may_go.get_future().share()](std::string_view text) {
    if (text == "first") gate.wait();
  };
  pool_threads = 1;
  begin_with("x");
  auto first = begin(ask("first", id));
  auto dead = begin(ask("dead"));
  dead.handle.reset();
  may_go.set_value();
  ASSERT_TRUE(dead->wait_finished());
  ASSERT_TRUE(first->wait_finished());
  EXPECT_TRUE(dead->in_order());
  EXPECT_EQ(dead->get<end_event>().reason, gpu::finish_reason::cancelled);
  EXPECT_EQ(script->submitted, 1);
}

TEST_F(sessions, dropped_at_any_moment_a_request_has_one_end_and_frees_its_slot) {
  answer_without_end();
  start();
  std::vector<running> all;
  for (int i = 0; i < 100; ++i) {
    all.push_back(begin(ask("q")));
    if (i % 2 == 0) all.back()->wait_for<started_event>();
    all.back().handle.reset();
  }
  for (auto& r : all) {
    ASSERT_TRUE(r->wait_finished());
    EXPECT_TRUE(r->in_order());
    EXPECT_EQ(r->get<end_event>().reason, gpu::finish_reason::cancelled);
  }
  EXPECT_TRUE(script->wait([](auto& s) { return s.turns == 0 && s.sequences == 0; }));
}

}  // namespace
}  // namespace kvern::actors
