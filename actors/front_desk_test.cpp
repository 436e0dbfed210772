#include "actors/front_desk.hpp"

#include <gtest/gtest.h>

#include <set>

#include "actors/test_service.hpp"

namespace kvern::actors {
namespace {

using test::bytes;
using test::tokens;

struct front_desks : test::service_fixture {};

TEST_F(front_desks, makes_lists_and_deletes_sessions) {
  start();
  std::set<std::string> ids;
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(ids.insert(new_session()).second);
  new_session(bob);
  const auto listed = list(alice).value();
  ASSERT_EQ(listed.size(), 5u);
  for (const auto& info : listed) {
    EXPECT_TRUE(ids.contains(info.id));
    EXPECT_GT(info.created, 1'700'000'000);
    EXPECT_EQ(info.tokens, 0);
    EXPECT_FALSE(info.last_validation);
  }
  EXPECT_EQ(service->stats().sessions, 6);
  EXPECT_EQ(remove(alice, *ids.begin()).value().id, *ids.begin());
  EXPECT_EQ(get(alice, *ids.begin()).error().code, "session_not_found");
  EXPECT_EQ(remove(alice, *ids.begin()).error().code, "session_not_found");
  EXPECT_EQ(list(alice).value().size(), 4u);
  EXPECT_EQ(service->stats().sessions, 5);
  EXPECT_TRUE(list(peer{.uid = 5}).value().empty());
}

TEST_F(front_desks, another_tenants_session_is_not_there) {
  answer("x");
  start();
  const auto id = new_session(alice);
  EXPECT_EQ(get(bob, id).error().code, "session_not_found");
  EXPECT_EQ(remove(bob, id).error().code, "session_not_found");
  EXPECT_EQ(cancel(bob, id).error().code, "session_not_found");
  auto r = begin(bob, ask("p", id));
  ASSERT_TRUE(r->wait_finished());
  EXPECT_EQ(r->get<refused_event>().why.code, "session_not_found");
  EXPECT_EQ(get(alice, id).value().turns, 0);
  // The same words as for one that never was.
  auto never = begin(bob, ask("p", "s-00000000000000000000000000000000"));
  ASSERT_TRUE(never->wait_finished());
  EXPECT_EQ(r->get<refused_event>().why, never->get<refused_event>().why);
}

TEST_F(front_desks, at_a_tenants_limit_the_least_recently_used_idle_session_ends) {
  answer("x");
  max_sessions = 3;
  start();
  std::vector<std::string> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(new_session());
  const auto of_bob = new_session(bob);
  run(ask("p", ids[0]));
  const auto fourth = new_session();
  EXPECT_EQ(get(alice, ids[1]).error().code, "session_not_found");
  EXPECT_TRUE(get(alice, ids[0]));
  EXPECT_TRUE(get(alice, ids[2]));
  EXPECT_TRUE(get(bob, of_bob));
  EXPECT_EQ(list(alice)->size(), 3u);
  // A fork counts as a use of both.
  const auto child = fork(alice, ids[0]);
  ASSERT_TRUE(child);
  EXPECT_EQ(get(alice, ids[2]).error().code, "session_not_found");
  EXPECT_TRUE(get(alice, ids[0]));
  EXPECT_TRUE(get(alice, fourth));
}

TEST_F(front_desks, with_all_sessions_in_use_no_more_are_made) {
  answer_without_end();
  max_sessions = 2;
  start();
  const auto a = new_session();
  const auto b = new_session();
  auto first = begin(ask("p", a));
  auto second = begin(ask("q", b));
  ASSERT_TRUE(first->wait_for<text_event>());
  ASSERT_TRUE(second->wait_for<text_event>());
  EXPECT_EQ(create(alice).error().code, "too_many_sessions");
  EXPECT_EQ(fork(alice, a).error().code, "too_many_sessions");
  new_session(bob);
  first.handle->cancel();
  ASSERT_TRUE(first->wait_finished());
  get(a);  // its turn is over when it answers
  EXPECT_TRUE(create(alice));
  EXPECT_EQ(list(alice)->size(), 2u);
  EXPECT_EQ(get(a).id, "");
  EXPECT_TRUE(get(b).running);
}

TEST_F(front_desks, a_session_deleted_while_it_runs_ends_and_frees_its_sequence) {
  answer_without_end();
  start();
  const auto id = new_session();
  auto r = begin(ask("p", id));
  ASSERT_TRUE(r->wait_for<text_event>());
  EXPECT_EQ(remove(alice, id).value().id, id);
  ASSERT_TRUE(r->wait_finished());
  EXPECT_TRUE(r->in_order());
  EXPECT_EQ(r->get<end_event>().reason, gpu::finish_reason::cancelled);
  EXPECT_TRUE(script->wait([](auto& s) { return s.sequences == 0 && s.turns == 0; }));
}

TEST_F(front_desks, deleting_during_a_long_step_does_not_wait_for_it) {
  answer_without_end();
  start();
  const auto id = new_session();
  auto r = begin_held(ask("p", id));
  EXPECT_TRUE(remove(alice, id).has_value());
  ASSERT_TRUE(r->wait_finished());
  EXPECT_EQ(script->steps, 0);
  script->go();
  EXPECT_TRUE(script->wait([](auto& s) { return s.sequences == 0; }));
}

TEST_F(front_desks, a_request_without_session_leaves_nothing) {
  answer("hello");
  start();
  const auto r = run(ask("p"));
  EXPECT_EQ(r->text(), "hello");
  EXPECT_EQ(r->get<started_event>().cache.reason, cache_reason::empty);
  EXPECT_TRUE(script->wait([](auto& s) { return s.sequences == 0; }));
  EXPECT_TRUE(list(alice).value().empty());
  EXPECT_EQ(service->stats().sessions, 0);
}

/// An answer that depends on the whole sequence, so that a mixed-up one shows.
token_id mixed(std::span<const token_id> sequence, std::int64_t n) {
  if (n == 12) return test::byte_tokenizer::eos_id;
  std::uint64_t hash = 14695981039346656037u;
  for (const auto id : sequence) hash = (hash ^ static_cast<std::uint64_t>(id)) * 1099511628211u;
  return static_cast<token_id>('a' + (hash >> 20) % 26);
}

TEST_F(front_desks, two_hundred_generations_over_fifty_sessions_say_what_they_say_alone) {
  script->next = mixed;
  script->max_running = 16;
  script->chunk = 5;
  start();
  constexpr std::size_t count = 50;
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < count; ++i) ids.push_back(new_session(i % 2 ? alice : bob));

  const auto alone = [](std::string prompt) {
    auto sequence = bytes(prompt);
    std::string text;
    for (std::int64_t n = 0;; ++n) {
      const auto token = mixed(sequence, n);
      if (token == test::byte_tokenizer::eos_id) return text;
      sequence.push_back(token);
      text += static_cast<char>(token);
    }
  };
  std::vector<std::string> said(count);
  for (std::size_t i = 0; i < count; ++i) said[i] = "session " + std::to_string(i);
  for (int round = 0; round < 4; ++round) {
    std::vector<running> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(begin(i % 2 ? alice : bob, ask(said[i], ids[i])));
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_TRUE(all[i]->wait_finished());
      ASSERT_TRUE(all[i]->in_order());
      const auto text = all[i]->text();
      ASSERT_EQ(text, alone(said[i]));
      const auto cache = all[i]->get<started_event>().cache;
      EXPECT_EQ(cache.reason, round == 0 ? cache_reason::empty : cache_reason::extends);
      // The last token of an answer was sampled and never run.
      EXPECT_EQ(cache.reused, round == 0 ? 0 : std::ssize(said[i]) - 1);
      said[i] += text + "!";
    }
  }
  EXPECT_EQ(script->sequences, static_cast<std::int64_t>(count));
  EXPECT_EQ(service->stats().requests, 200);
}

}  // namespace
}  // namespace kvern::actors
