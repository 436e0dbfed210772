#include "actors/courier.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/send.hpp>

#include <gtest/gtest.h>

#include <future>
#include <random>

#include "actors/front_desk.hpp"
#include "actors/gpu_worker.hpp"
#include "actors/scribe.hpp"
#include "actors/scripted_engine.hpp"
#include "actors/session.hpp"
#include "actors/supervisor.hpp"

namespace kvern::actors {
namespace {

using namespace std::chrono_literals;
using test::tokens;

/// A session that only remembers the tokens it is handed. The answer to a command is behind all that came before.
session_actor::behavior_type listen(session_actor::pointer, std::shared_ptr<tokens> heard) {
  return {
      [](start_turn&) {},
      [](const cancel_request&) {},
      [](turn_refused&) {},
      [heard](turn_outputs& m) {
        for (const auto& output : m.outputs) heard->push_back(std::get<gpu::turn_token>(output.what).token);
      },
      [](prompt_ready&) {},
      [](const report_info&) {},
      [](session_command& m) { m.to.take().answer(session_info()); },
      [](const rewind_session&) {},
      [](const export_session&) {},
      [](explain_prompt&) {},
      [](prompt_explained&) {},
      [](fork_session&) {},
      [](take_over&) {},
      [](take_file&) {},
      [](const stop_turns&) {},
  };
}

/// A courier that gives what it should do to the test.
courier_actor::behavior_type hold_back(courier_actor::pointer, std::shared_ptr<std::promise<std::promise<void>>> held) {
  return {
      [](step_outputs&) {},
      [held](drain& m) { held->set_value(m.done.take()); },
  };
}

struct couriers : testing::Test {
  caf::actor_system_config config;
  caf::actor_system actors{config};
  std::shared_ptr<test::engine_script> script = std::make_shared<test::engine_script>();
  std::shared_ptr<status_board> board = std::make_shared<status_board>();
  gate doors;

  courier_actor spawn_courier() { return actors.spawn<courier>(board, parcel(doors.enter())); }
  worker_actor spawn_worker(const courier_actor& to, std::unique_ptr<gpu::engine> engine) {
    return actors.spawn<gpu_worker, caf::detached>(parcel(std::move(engine)), to, board, parcel(doors.enter()));
  }
  std::unique_ptr<gpu::engine> engine() { return std::make_unique<test::scripted_engine>(script); }

  /// Tells an actor to drain; ready when it has.
  template <class Actor>
  static std::future<void> drained(const Actor& to) {
    std::promise<void> done;
    auto when = done.get_future();
    caf::anon_send(to, drain{parcel(std::move(done))});
    return when;
  }
};

TEST_F(couriers, hand_each_session_its_outputs_in_order_and_drain_behind_them) {
  const auto carrier = spawn_courier();
  const auto seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  constexpr std::size_t count = 5;
  std::vector<session_actor> sessions;
  std::vector<std::shared_ptr<tokens>> heard;
  std::vector<tokens> sent(count);
  for (std::size_t i = 0; i < count; ++i) {
    heard.push_back(std::make_shared<tokens>());
    sessions.push_back(actors.spawn(listen, heard.back()));
  }
  token_id next = 0;
  for (int round = 0; round < 20; ++round) {
    for (int step = 0; step < 50; ++step) {
      step_outputs brought;
      for (std::size_t i = 0; i < count; ++i) {
        turn_outputs outputs;
        for (auto more = random() % 4; more > 0; --more) {
          sent[i].push_back(next);
          outputs.outputs.push_back({1, gpu::turn_token{next++, false, {}}});
        }
        if (!outputs.outputs.empty()) brought.of.emplace_back(sessions[i], std::move(outputs));
      }
      caf::anon_send(carrier, std::move(brought));
    }
    ASSERT_EQ(drained(carrier).wait_for(test::limit), std::future_status::ready);
    for (std::size_t i = 0; i < count; ++i) {
      std::promise<void> asked;
      caf::anon_send(sessions[i], session_command{session_verb::get,
                                                  parcel(port(reply<session_info>([&](auto) { asked.set_value(); })))});
      asked.get_future().wait();
      ASSERT_EQ(*heard[i], sent[i]);
    }
  }
}

TEST_F(couriers, keep_the_promise_of_a_drained_worker) {
  const auto held = std::make_shared<std::promise<std::promise<void>>>();
  const auto worker = spawn_worker(actors.spawn(hold_back, held), engine());
  const auto done = drained(worker);
  auto promise = held->get_future().get();
  EXPECT_EQ(done.wait_for(0s), std::future_status::timeout);
  promise.set_value();
  EXPECT_EQ(done.wait_for(0s), std::future_status::ready);
  caf::anon_send_exit(worker, caf::exit_reason::user_shutdown);
}

TEST_F(couriers, that_end_fail_the_worker) {
  script->next = [](auto, auto) { return 'a'; };
  auto made = engine();
  const auto terms = std::make_shared<const session_file_terms>("model", "engine", made->info());
  const auto carrier = spawn_courier();
  const auto worker = spawn_worker(carrier, std::move(made));
  const auto writer = actors.spawn<scribe, caf::detached>(parcel(doors.enter()));
  const auto context = std::make_shared<const session_context>(std::make_shared<test::byte_tokenizer>(), nullptr,
                                                               worker, writer, board, terms);
  const auto desk = actors.spawn<front_desk>(context, 8, doors, parcel(doors.enter()));
  const auto watcher = actors.spawn<supervisor>(worker, carrier, writer, desk, board, parcel(doors.enter()));
  const auto ask = [&] {
    auto sink = std::make_shared<test::recording_sink>();
    generation_request request;
    request.prompt = text_prompt{"p", false, false};
    pending_request pending{"uid:1", std::move(request), event_stream(sink, nullptr), std::make_shared<ticket>()};
    caf::anon_send(desk, start_turn{parcel(std::move(pending))});
    return sink;
  };
  const auto running = ask();
  ASSERT_TRUE(running->wait_for<text_event>());
  caf::anon_send_exit(carrier, caf::exit_reason::kill);
  ASSERT_TRUE(running->wait_finished());
  EXPECT_EQ(running->get<end_event>().reason, gpu::finish_reason::failed);
  EXPECT_EQ(running->get<end_event>().why.code, "worker_failed");
  EXPECT_NE(running->get<end_event>().why.message.find("courier"), std::string::npos);
  EXPECT_FALSE(board->worker_alive());
  const auto refused = ask();
  ASSERT_TRUE(refused->wait_finished());
  EXPECT_EQ(refused->get<refused_event>().why.code, "worker_failed");

  // Nobody waits for one that is gone.
  EXPECT_EQ(drained(worker).wait_for(test::limit), std::future_status::ready);
  caf::anon_send_exit(watcher, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(desk, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(writer, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(worker, caf::exit_reason::user_shutdown);
  EXPECT_TRUE(doors.wait_empty(test::limit));
}

}  // namespace
}  // namespace kvern::actors
