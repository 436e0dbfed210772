#include "actors/running_turn.hpp"

#include <gtest/gtest.h>

#include "actors/test_doubles.hpp"

namespace kvern::actors {
namespace {

using test::byte_tokenizer;
using test::bytes;
using test::tokens;
using verdict = running_turn::verdict;

struct running_turns : testing::Test {
  std::shared_ptr<byte_tokenizer> vocabulary = std::make_shared<byte_tokenizer>();
  std::shared_ptr<test::recording_sink> sink = std::make_shared<test::recording_sink>();
  session_history history;
  std::unique_ptr<running_turn> turn;
  gpu::turn planned;

  result<void> create(generation_request request) {
    pending_request pending{"uid:1", std::move(request), event_stream(sink, nullptr), std::make_shared<ticket>()};
    auto made = running_turn::create(pending, vocabulary);
    if (!made) return std::unexpected(made.error());
    turn = std::move(*made);
    return {};
  }
  void begin(std::string_view prompt, generation_request request = {}) {
    ASSERT_TRUE(create(std::move(request)));
    auto plan = turn->plan(bytes(prompt), history, 7, 3, 500);
    ASSERT_TRUE(plan);
    planned = std::move(*plan);
  }
  /// A turn with a stop string that has begun to generate.
  void begin_with_stop(std::string stop) {
    generation_request request;
    request.stop = {std::move(stop)};
    begin("p", std::move(request));
    say(gpu::turn_started{0});
  }
  template <class T>
  verdict say(T what) {
    gpu::turn_output output{7, std::move(what)};
    return turn->take(output, history, 99);
  }
  verdict guessed(token_id id) { return say(gpu::turn_token{id, false, {}, true}); }
  verdict token(token_id id) { return say(gpu::turn_token{id, id == byte_tokenizer::eos_id, {}}); }
  verdict ended(gpu::finish_reason reason, std::int64_t committed = 0) {
    gpu::turn_ended e;
    e.reason = reason;
    e.committed = committed;
    e.prompt_ms = 5;
    return say(e);
  }
};

TEST_F(running_turns, plans_what_the_request_says) {
  generation_request request;
  request.max_tokens = 12;
  request.prompt_lookup = false;
  request.ignore_eos = true;
  request.logprobs = 3;
  request.sampling.top_k = 9;
  history.tokens = bytes("abX");
  begin("abc", std::move(request));
  EXPECT_EQ(planned.id, 7u);
  EXPECT_EQ(planned.sequence, 3u);
  EXPECT_EQ(planned.tenant, "uid:1");
  EXPECT_EQ(planned.keep, 2);
  EXPECT_EQ(planned.prompt, bytes("abc"));
  EXPECT_EQ(planned.max_tokens, 12);
  EXPECT_EQ(planned.sampling.top_k, 9);
  EXPECT_TRUE(planned.ignore_eos);
  EXPECT_EQ(planned.prompt_lookup, std::optional(false));
  EXPECT_EQ(planned.logprobs, 3);
  EXPECT_EQ(history.tokens, bytes("abX"));
}

TEST_F(running_turns, checks_the_request) {
  const auto code = [&](auto change) {
    generation_request request;
    change(request);
    const auto made = create(std::move(request));
    return made ? std::string() : made.error().code;
  };
  EXPECT_EQ(code([](auto& r) { r.max_tokens = 0; }), "invalid_request");
  EXPECT_EQ(code([](auto& r) { r.max_tokens = -1; }), "invalid_request");
  EXPECT_EQ(code([](auto& r) { r.logprobs = 21; }), "invalid_request");
  EXPECT_EQ(code([](auto& r) { r.logprobs = -2; }), "invalid_request");
  EXPECT_EQ(code([](auto& r) { r.stop = {""}; }), "invalid_request");
  EXPECT_EQ(code([](auto& r) { r.logprobs = 20; }), "");
}

TEST_F(running_turns, a_turn_to_its_end_token) {
  history.tokens = bytes("ab");
  begin("abc");
  EXPECT_EQ(say(gpu::turn_started{2}), verdict::goes_on);
  EXPECT_EQ(history.tokens, bytes("abc"));
  EXPECT_EQ(say(gpu::turn_progress{3, 3}), verdict::goes_on);
  EXPECT_EQ(token('x'), verdict::goes_on);
  EXPECT_EQ(token('y'), verdict::goes_on);
  EXPECT_EQ(token(byte_tokenizer::eos_id), verdict::goes_on);
  EXPECT_EQ(ended(gpu::finish_reason::stop, 5), verdict::over);

  EXPECT_TRUE(sink->in_order());
  const auto started = sink->get<started_event>();
  EXPECT_EQ(started.prompt, bytes("abc"));
  EXPECT_EQ(started.cache.reused, 2);
  EXPECT_EQ(started.cache.computed, 1);
  EXPECT_EQ(started.cache.reason, cache_reason::extends);
  EXPECT_EQ(sink->text(), "xy");
  const auto end = sink->get<end_event>();
  EXPECT_EQ(end.reason, gpu::finish_reason::stop);
  EXPECT_EQ(end.prompt_tokens, 3);
  EXPECT_EQ(end.completion_tokens, 3);
  EXPECT_EQ(end.prompt_ms, 5);
  EXPECT_EQ(history.tokens, bytes("abcxy"));
  EXPECT_EQ(history.committed, 5);
  EXPECT_EQ(history.turns, 1);
  EXPECT_EQ(history.last_used, 99);
  EXPECT_EQ(history.last_validation->reused, 2);
}

TEST_F(running_turns, what_the_worker_really_kept_is_reported) {
  history.tokens = bytes("abcd");
  begin("abcde");
  EXPECT_EQ(planned.keep, 4);
  say(gpu::turn_started{1});
  EXPECT_EQ(sink->get<started_event>().cache.reused, 1);
  EXPECT_EQ(sink->get<started_event>().cache.computed, 4);
}

TEST_F(running_turns, a_stop_string_cancels_the_worker_once_and_ends_well) {
  begin_with_stop("yz");
  token('x');
  token('y');
  EXPECT_EQ(token('z'), verdict::cancel);
  EXPECT_EQ(token('!'), verdict::goes_on);
  EXPECT_EQ(ended(gpu::finish_reason::cancelled, 4), verdict::over);
  const auto end = sink->get<end_event>();
  EXPECT_EQ(end.reason, gpu::finish_reason::stop);
  EXPECT_EQ(end.stop_string, "yz");
  EXPECT_EQ(end.completion_tokens, 3);
  EXPECT_EQ(sink->text(), "x");
  EXPECT_EQ(history.tokens, bytes("px"));
  EXPECT_EQ(history.committed, 2);
}

TEST_F(running_turns, an_end_token_is_part_of_the_text_when_it_is_to_be_ignored) {
  generation_request request;
  request.ignore_eos = true;
  begin("p", std::move(request));
  say(gpu::turn_started{0});
  token(byte_tokenizer::eos_id);
  token('a');
  ended(gpu::finish_reason::length, 2);
  EXPECT_EQ(sink->text(), "a");
  EXPECT_EQ(history.tokens, (tokens{'p', byte_tokenizer::eos_id, 'a'}));
}

TEST_F(running_turns, length_gives_out_what_was_held) {
  begin_with_stop("ab");
  token('a');
  EXPECT_EQ(sink->text(), "");
  ended(gpu::finish_reason::length, 1);
  EXPECT_EQ(sink->text(), "a");
  EXPECT_EQ(history.tokens, bytes("pa"));
}

TEST_F(running_turns, a_cancelled_turn_keeps_what_was_sent_and_drops_what_was_held) {
  begin_with_stop("bc");
  token('a');
  token('b');
  EXPECT_TRUE(turn->cancel(history));
  EXPECT_FALSE(turn->cancel(history));
  token('d');
  // The worker may have come to an end by itself just before.
  ended(gpu::finish_reason::length, 9);
  EXPECT_EQ(sink->get<end_event>().reason, gpu::finish_reason::cancelled);
  EXPECT_EQ(sink->text(), "a");
  EXPECT_EQ(history.tokens, bytes("pa"));
  EXPECT_EQ(history.committed, 2);
}

TEST_F(running_turns, cancelled_in_the_queue_leaves_the_history_alone) {
  history.tokens = bytes("ab");
  begin("abc");
  turn->cancel(history);
  EXPECT_EQ(ended(gpu::finish_reason::cancelled, 2), verdict::over);
  EXPECT_TRUE(sink->in_order());
  EXPECT_EQ(sink->get<started_event>().prompt, bytes("abc"));
  EXPECT_EQ(sink->get<end_event>().reason, gpu::finish_reason::cancelled);
  EXPECT_EQ(history.tokens, bytes("ab"));
  EXPECT_EQ(history.turns, 0);
}

TEST_F(running_turns, a_failure_in_the_queue_refuses_and_a_later_one_ends) {
  begin("p");
  gpu::turn_ended failed;
  failed.reason = gpu::finish_reason::failed;
  failed.why = {"no_finite_logit", "x"};
  EXPECT_EQ(say(failed), verdict::over);
  EXPECT_EQ(sink->get<refused_event>().why.code, "no_finite_logit");

  sink = std::make_shared<test::recording_sink>();
  begin("p");
  say(gpu::turn_started{0});
  token('a');
  say(failed);
  EXPECT_EQ(sink->get<end_event>().reason, gpu::finish_reason::failed);
  EXPECT_EQ(sink->get<end_event>().why.code, "no_finite_logit");
  EXPECT_EQ(history.tokens, bytes("pa"));
}

TEST_F(running_turns, a_sink_that_throws_cancels_and_its_event_does_not_count_as_sent) {
  begin("p");
  sink->throw_at = 2;
  say(gpu::turn_started{0});
  EXPECT_EQ(token('a'), verdict::goes_on);
  EXPECT_EQ(token('b'), verdict::cancel);
  EXPECT_EQ(token('c'), verdict::goes_on);
  EXPECT_EQ(ended(gpu::finish_reason::cancelled, 3), verdict::over);
  EXPECT_EQ(history.tokens, bytes("pa"));
}

TEST_F(running_turns, failing_from_outside) {
  begin("p");
  turn->fail({"shutting_down", "x"});
  EXPECT_EQ(sink->get<refused_event>().why.code, "shutting_down");

  sink = std::make_shared<test::recording_sink>();
  begin("p");
  say(gpu::turn_started{0});
  turn->fail({"worker_failed", "x"});
  EXPECT_EQ(sink->get<end_event>().why.code, "worker_failed");
}

TEST_F(running_turns, a_turn_that_met_its_stop_string_ends_well_in_any_case) {
  begin_with_stop("a");
  token('a');
  turn->fail({"worker_failed", "x"});
  EXPECT_EQ(sink->get<end_event>().reason, gpu::finish_reason::stop);
  EXPECT_EQ(sink->get<end_event>().why.code, "");
}

TEST_F(running_turns, guessed_tokens_beyond_a_stop_string_are_none_of_the_answer) {
  begin_with_stop("xyz");
  token('w');
  guessed('x');
  guessed('y');
  EXPECT_EQ(guessed('z'), verdict::cancel);
  for (int i = 0; i < 20; ++i) guessed('a');
  gpu::turn_ended e;
  e.reason = gpu::finish_reason::cancelled;
  e.drafted = 30;
  e.accepted = 23;
  say(e);
  EXPECT_EQ(sink->get<end_event>().reason, gpu::finish_reason::stop);
  EXPECT_EQ(sink->get<end_event>().completion_tokens, 4);
  EXPECT_EQ(sink->get<end_event>().accepted_tokens, 3);
  EXPECT_EQ(sink->get<end_event>().drafted_tokens, 30);
}

TEST_F(running_turns, plans_what_happens_when_the_context_is_full) {
  history.settings = {gpu::overflow_policy::rotate, 40};
  begin("abc");
  EXPECT_EQ(planned.overflow, gpu::overflow_policy::rotate);
  EXPECT_EQ(planned.rotate_keep, 40);
  EXPECT_EQ(planned.max_tokens, 500);
  generation_request request;
  request.keep = 7;
  request.max_tokens = 900;
  begin("abc", request);
  EXPECT_EQ(planned.rotate_keep, 7);
  EXPECT_EQ(planned.max_tokens, 900);
  request.overflow = gpu::overflow_policy::stop;
  ASSERT_TRUE(create(request));
  EXPECT_EQ(turn->plan(bytes("abc"), history, 7, 3, 500).error().code, "invalid_request");
  request.keep.reset();
  request.max_tokens.reset();
  begin("abc", request);
  EXPECT_EQ(planned.overflow, gpu::overflow_policy::stop);
  EXPECT_EQ(planned.rotate_keep, 0);
  EXPECT_EQ(planned.max_tokens, -1);
}

TEST_F(running_turns, keep_neither_an_excluded_tail_nor_the_answer) {
  generation_request request;
  request.exclude_tail = 2;
  begin("abcd", request);
  EXPECT_EQ(planned.exclude_tail, 2);
  say(gpu::turn_started{0});
  say(gpu::turn_progress{4, 4});
  EXPECT_EQ(history.tokens, bytes("ab"));
  EXPECT_EQ(history.committed, 2);
  token('x');
  EXPECT_EQ(sink->text(), "x");
  ended(gpu::finish_reason::length, 2);
  EXPECT_EQ(history.tokens, bytes("ab"));
  request.exclude_tail = 100;
  begin("abcd", request);
  EXPECT_EQ(planned.exclude_tail, 4);
}

TEST_F(running_turns, tells_of_shared_lines_and_of_those_forgotten) {
  begin("abcd");
  say(gpu::turn_started{3, 2});
  EXPECT_EQ(sink->get<started_event>().cache.shared, 2);
  EXPECT_EQ(sink->get<started_event>().cache.computed, 1);
  gpu::turn_ended e;
  e.reason = gpu::finish_reason::length;
  e.committed = 4;
  e.forgotten = 64;
  e.rotate_keep = 32;
  e.drafted = 9;
  e.accepted = 7;
  say(e);
  EXPECT_EQ(sink->get<end_event>().drafted_tokens, 9);
  EXPECT_EQ(sink->get<end_event>().accepted_tokens, 0) << "no token of the answer was guessed";
  ASSERT_TRUE(sink->get<end_event>().overflow);
  EXPECT_EQ(sink->get<end_event>().overflow->policy, gpu::overflow_policy::rotate);
  EXPECT_EQ(sink->get<end_event>().overflow->keep, 32);
  EXPECT_EQ(sink->get<end_event>().overflow->forgotten, 64);
  EXPECT_EQ(history.forgotten, 64);
}

}  // namespace
}  // namespace kvern::actors
