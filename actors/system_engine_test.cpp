#include <gtest/gtest.h>

#include <set>

#include "actors/system.hpp"
#include "actors/test_service.hpp"
#include "gpu/engine/fake_backend.hpp"

/// The service over the real engine: its scheduler, pages and sampler. The fake backend's answers change with every
/// wrong, missing or stale line.
namespace kvern::actors {
namespace {

using test::byte_tokenizer;
using test::bytes;
using test::tokens;

struct engine_systems : test::service_fixture {
  gpu::fake_backend::shape shape{.vocab = byte_tokenizer::first_piece, .context = 512, .pages = 64, .max_rows = 64};

  void start_engine(gpu::engine_options options = {}) {
    options.is_end = [](token_id id) { return id == byte_tokenizer::eos_id; };
    auto engine = gpu::engine::create(std::make_unique<gpu::fake_backend>(shape), std::move(options));
    ASSERT_TRUE(engine.has_value());
    system_options made;
    made.engine = std::move(*engine);
    made.tokens = vocabulary;
    made.chat_template = chat_template;
    service = actors::system::start(std::move(made));
  }
  void TearDown() override { service.reset(); }

  /// The likeliest tokens after `prompt`, computed alone and without cache.
  tokens alone(tokens sequence, std::int64_t count) const {
    tokens out;
    auto state = gpu::fake_backend::state_of(sequence);
    while (std::ssize(out) < count) {
      const auto logits = gpu::fake_backend::logits_of(state, shape.vocab);
      out.push_back(static_cast<token_id>(std::ranges::max_element(logits) - logits.begin()));
      state = gpu::fake_backend::next_state(state, out.back());
    }
    return out;
  }

  static generation_request greedy(tokens prompt, std::int64_t count, std::string session = {}) {
    generation_request request;
    request.prompt = std::move(prompt);
    request.session = std::move(session);
    request.sampling.temperature = 0;
    request.max_tokens = count;
    request.ignore_eos = true;
    return request;
  }
};

TEST_F(engine_systems, every_cache_reason_serves_the_tokens_of_a_fresh_run) {
  start_engine();
  const auto id = new_session();
  auto said = bytes("The first prompt, longer than one page of lines so that pages matter.");
  const auto turn = [&](const tokens& prompt) {
    const auto r = run(greedy(prompt, 40, id));
    EXPECT_EQ(r->generated(), alone(prompt, 40));
    EXPECT_EQ(r->get<end_event>().reason, gpu::finish_reason::length);
    EXPECT_EQ(r->get<end_event>().completion_tokens, 40);
    return r->get<started_event>();
  };
  EXPECT_EQ(turn(said).cache.reason, cache_reason::empty);
  const auto answer = alone(said, 40);
  said.insert(said.end(), answer.begin(), answer.end());
  said.push_back('?');
  auto cache = turn(said).cache;
  EXPECT_EQ(cache.reason, cache_reason::extends);
  EXPECT_EQ(cache.reused, std::ssize(said) - 2);  // the last token of the answer never ran
  EXPECT_EQ(cache.computed, 2);
  cache = turn(bytes("The first prompt, longer than one")).cache;
  EXPECT_EQ(cache.reason, cache_reason::shorter);
  EXPECT_EQ(cache.reused, 32);
  cache = turn(bytes("The first prompt, longer THAN one")).cache;
  EXPECT_EQ(cache.reason, cache_reason::mismatch);
  EXPECT_EQ(cache.first_divergence, 25);
  EXPECT_EQ(cache.reused, 25);
  said = bytes("The first prompt, longer THAN one");
  const auto more = alone(said, 40);
  said.insert(said.end(), more.begin(), more.end());
  cache = turn(said).cache;
  EXPECT_EQ(cache.reason, cache_reason::same);
  EXPECT_EQ(cache.computed, 1);
}

TEST_F(engine_systems, many_at_once_say_what_each_says_alone) {
  shape.pages = 160;
  gpu::engine_options options;
  options.max_running = 12;
  start_engine(std::move(options));
  constexpr std::size_t count = 50;
  std::vector<std::string> ids;
  std::vector<tokens> said;
  for (std::size_t i = 0; i < count; ++i) {
    ids.push_back(new_session(i % 2 ? alice : bob));
    said.push_back(bytes("session " + std::to_string(i * i)));
  }
  for (int round = 0; round < 4; ++round) {
    std::vector<running> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(begin(i % 2 ? alice : bob, greedy(said[i], 12, ids[i])));
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_TRUE(all[i]->wait_finished());
      ASSERT_TRUE(all[i]->in_order());
      const auto answer = alone(said[i], 12);
      ASSERT_EQ(all[i]->generated(), answer);
      said[i].insert(said[i].end(), answer.begin(), answer.end());
      said[i].push_back('!');
    }
  }
  EXPECT_EQ(service->stats().engine.turns, 200u);
  EXPECT_EQ(service->stats().engine.failed_turns, 0u);
}

TEST_F(engine_systems, cancelled_at_random_the_cache_still_serves_fresh_answers) {
  start_engine();
  const auto id = new_session();
  auto said = bytes("once upon a time");
  for (int i = 0; i < 30; ++i) {
    auto request = greedy(said, 300, id);
    request.overflow = gpu::overflow_policy::stop;
    auto r = begin(std::move(request));
    ASSERT_TRUE(r->wait_for<text_event>());
    r.handle->cancel();
    ASSERT_TRUE(r->wait_finished());
    const auto got = r->generated();
    ASSERT_EQ(got, alone(said, std::ssize(got)));
    EXPECT_EQ(get(id).tokens, std::ssize(said) + std::ssize(got));
    if (std::ssize(said) + std::ssize(got) > 300) break;
    said.insert(said.end(), got.begin(), got.end());
    said.push_back('x');
  }
  EXPECT_EQ(run(greedy(said, 20, id))->generated(), alone(said, 20));
}

TEST_F(engine_systems, a_stop_string_among_guessed_tokens_ends_the_answer_there) {
  for (const bool guessing : {true, false}) {
    start_engine();
    const auto id = new_session();
    auto said = bytes("abcdefgabcdefgabcdefgabcdefg");
    auto request = greedy(said, 200, id);
    request.sampling.logit_bias = {{'a', 1000.0}};
    request.stop = {std::string(70, 'a')};
    request.prompt_lookup = guessing;
    const auto r = run(request);
    EXPECT_EQ(r->get<end_event>().reason, gpu::finish_reason::stop);
    EXPECT_EQ(r->get<end_event>().completion_tokens, 70);
    EXPECT_EQ(r->get<end_event>().accepted_tokens > 0, guessing);
    EXPECT_LT(r->get<end_event>().accepted_tokens, 70);
    EXPECT_EQ(r->text(), "");
    // The session has what its client has, and goes on from there.
    said.push_back('!');
    const auto next = run(greedy(said, 20, id));
    EXPECT_EQ(next->get<started_event>().cache.reason, cache_reason::extends);
    EXPECT_EQ(next->get<started_event>().cache.reused, std::ssize(said) - 1);
    EXPECT_EQ(next->generated(), alone(said, 20));
    service.reset();
  }
}

TEST_F(engine_systems, of_a_deleted_session_the_full_pages_of_its_prompts_stay_cached) {
  start_engine();
  const auto id = new_session();
  run(greedy(bytes(std::string(100, 'p')), 10, id));
  EXPECT_EQ(service->stats().engine.pages_used, 4);
  ASSERT_TRUE(remove(alice, id).has_value());
  service->shut_down(test::limit);
  EXPECT_EQ(service->stats().engine.pages_used, 3);
  EXPECT_EQ(service->stats().engine.sequences, 0);
}

TEST_F(engine_systems, refusals_of_the_engine_come_with_its_words) {
  start_engine();
  const auto refused = [&](generation_request request) { return run(std::move(request))->get<refused_event>().why; };
  EXPECT_EQ(refused(greedy(tokens(512, 'p'), 1)).code, "context_length_exceeded");
  auto request = greedy(bytes("p"), 1);
  request.sampling.temperature = -1;
  EXPECT_EQ(refused(std::move(request)).code, "invalid_request");
}

}  // namespace
}  // namespace kvern::actors
