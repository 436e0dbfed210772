#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "ipc/raw_client.hpp"

namespace kvern::ipc {
namespace {

namespace json = boost::json;
using completions = served;

const std::string streamed = std::string(chat_body) + R"(,"stream":true})";
const std::string whole = std::string(chat_body) + "}";

TEST_F(completions, come_whole) {
  start();
  raw_client c(path());
  const auto call = ask(c, chat_path, whole);
  EXPECT_EQ(call->from.uid, ::getuid());
  EXPECT_EQ(call->from.pid, ::getpid());
  call->start(5, {3, 2, cache_reason::extends, std::nullopt});
  call->text("Hel");
  call->text("lo");
  call->end(gpu::finish_reason::length);
  const response r = c.answer();
  EXPECT_EQ(r.status, 200);
  const json::value v = r.json();
  EXPECT_EQ(v.at("choices").at(0).at("message").at("content"), "Hello");
  EXPECT_EQ(v.at("choices").at(0).at("finish_reason"), "length");
  EXPECT_EQ(v.at("usage").at("prompt_tokens_details").at("cached_tokens").as_int64(), 3);
  // The connection goes on.
  c.request("GET", "/health");
  EXPECT_EQ(c.answer().status, 200);
}

TEST_F(completions, come_as_events_at_once) {
  start();
  raw_client c(path());
  const auto call = ask(c, chat_path, streamed);
  call->start();
  const response head = c.head();
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("Content-Type"), "text/event-stream");
  EXPECT_EQ(head.headers.at("Cache-Control"), "no-cache");
  call->text("Hel");
  const std::string first = c.chunk();  // before the end has been sent
  EXPECT_NE(first.find("Hel"), std::string::npos);
  call->text("lo");
  call->end();
  const auto events = events_of(first + c.chunks());
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events.back(), "[DONE]");
  c.request("GET", "/health");
  EXPECT_EQ(c.answer().status, 200);
}

TEST_F(completions, are_not_chunked_for_old_clients) {
  start();
  raw_client c(path());
  c.send("POST " + chat_path + " HTTP/1.0\r\nContent-Length: " + std::to_string(streamed.size()) + "\r\n\r\n" +
         streamed);
  const auto call = service_->next_call();
  ASSERT_TRUE(call);
  call->start();
  call->text("x");
  call->end();
  EXPECT_EQ(c.head().status, 200);
  EXPECT_TRUE(c.rest().ends_with("data: [DONE]\n\n"));
}

TEST_F(completions, are_refused_before_any_stream_begins) {
  const std::pair<const char*, int> cases[] = {{"context_length_exceeded", 400},
                                               {"template_error", 400},
                                               {"session_not_found", 404},
                                               {"session_busy", 409},
                                               {"queue_full", 429},
                                               {"shutting_down", 503},
                                               {"worker_failed", 503}};
  start();
  for (const auto& [code, status] : cases) {
    for (const std::string& body : {streamed, whole}) {
      raw_client c(path());
      const auto call = ask(c, chat_path, body);
      call->refuse(code, "prompt has 9 tokens, context 8");
      const response r = c.answer();
      EXPECT_EQ(r.status, status) << code;
      EXPECT_EQ(r.code(), code);
      EXPECT_EQ(r.headers.at("Content-Type"), "application/json");
      EXPECT_EQ(r.headers.contains("Retry-After"), status == 429 || status == 503);
      EXPECT_TRUE(call->wait_cancelled());  // that is: let go
    }
  }
}

TEST_F(completions, end_with_an_error_event_when_they_fail) {
  start();
  raw_client c(path());
  const auto call = ask(c, chat_path, streamed);
  call->start();
  EXPECT_EQ(c.head().status, 200);
  call->text("x");
  call->end(gpu::finish_reason::failed, {"worker_failed", "the worker died"});
  const auto events = events_of(c.chunks());
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(json::parse(events.back()).at("error").at("code"), "worker_failed");

  raw_client other(path());
  const auto failing = ask(other, chat_path, whole);
  failing->start();
  failing->end(gpu::finish_reason::failed, {"no_finite_logit", "numbers went bad"});
  EXPECT_EQ(other.answer().status, 500);
}

TEST_F(completions, are_cancelled_when_the_client_leaves) {
  start();
  for (int phase = 0; phase < 4; ++phase) {
    for (const std::string& body : {streamed, whole}) {
      raw_client c(path());
      const auto call = ask(c, chat_path, body);
      if (phase == 3) c.send("GET /health HTTP/1.1\r\n\r\n");  // sent ahead, never read
      if (phase > 0) call->start();
      if (phase > 1) call->text("x");
      c.close();
      EXPECT_TRUE(call->wait_cancelled()) << phase;
      call->text("late");
      call->end(gpu::finish_reason::cancelled);
    }
  }
  EXPECT_EQ(get("/health").status, 200);
}

TEST_F(completions, go_on_for_a_client_that_only_closed_its_sending_side) {
  start();
  raw_client c(path());
  c.post(chat_path, streamed);
  c.half_close();
  const auto call = service_->next_call();
  ASSERT_TRUE(call);
  call->start();
  call->text("x");
  EXPECT_EQ(c.head().status, 200);
  EXPECT_FALSE(call->cancelled());
  call->end();
  EXPECT_NE(c.rest().find("[DONE]"), std::string::npos);
}

TEST_F(completions, of_a_client_that_never_reads_end_without_hurting_others) {
  server_options o;
  o.max_queued_bytes = 64 << 10;
  start(o);
  raw_client slow(path());
  const auto stuck = ask(slow, chat_path, streamed);
  stuck->start();
  const std::string kilobyte(1024, 'x');
  int sent = 0;
  for (; sent < 100'000 && !stuck->cancelled(); ++sent) {
    stuck->text(kilobyte);
    if (sent % 1000 == 0) {
      EXPECT_EQ(get("/health").status, 200);
    }
  }
  EXPECT_TRUE(stuck->wait_cancelled());
  raw_client good(path());
  const auto call = ask(good, chat_path, streamed);
  call->start();
  call->text("x");
  call->end();
  EXPECT_TRUE(good.answer().body.ends_with("data: [DONE]\n\n"));
}

TEST_F(completions, of_a_client_that_takes_nothing_end_after_the_write_timeout) {
  server_options o;
  o.write_timeout = std::chrono::seconds(1);
  o.max_queued_bytes = 64u << 20;
  start(o);
  raw_client slow(path());
  const auto stuck = ask(slow, chat_path, streamed);
  stuck->start();
  for (int i = 0; i < 4096; ++i) stuck->text(std::string(1024, 'x'));
  EXPECT_TRUE(stuck->wait_cancelled());
}

TEST_F(completions, have_separate_generations_for_n_and_prompts) {
  start();
  raw_client c(path());
  c.post("/v1/completions", R"({"prompt":["a","b"],"n":2,"seed":5})");
  for (std::uint64_t i = 0; i < 4; ++i) {
    const auto call = service_->next_call();
    ASSERT_TRUE(call);
    EXPECT_EQ(std::get<text_prompt>(call->request.prompt).text, i < 2 ? "a" : "b");
    EXPECT_EQ(call->request.sampling.seed, 5 + i % 2);
    call->start();
    call->text(std::to_string(i));
    call->end();
  }
  const json::value v = c.answer().json();
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(v.at("choices").at(i).at("index").as_int64(), static_cast<std::int64_t>(i));
    EXPECT_EQ(v.at("choices").at(i).at("text").as_string(), std::to_string(i));
  }
  EXPECT_EQ(v.at("usage").at("prompt_tokens").as_int64(), 6);
}

TEST_F(completions, let_go_of_all_choices_when_one_is_refused) {
  start();
  raw_client c(path());
  const auto first = ask(c, "/v1/completions", R"({"prompt":"a","n":2})");
  const auto second = service_->next_call();
  ASSERT_TRUE(first && second);
  first->start();
  second->refuse("queue_full");
  EXPECT_EQ(c.answer().status, 429);
  EXPECT_TRUE(first->wait_cancelled());
}

TEST_F(completions, know_the_bytes_of_alternatives) {
  start();
  raw_client c(path());
  const auto call = ask(c, chat_path, std::string(chat_body) + R"(,"logprobs":true,"top_logprobs":2})");
  EXPECT_EQ(call->request.logprobs, 2);
  call->start();
  text_event e{"A", {}};
  e.tokens.push_back({65, "A", {-0.5, {{65, -0.5}, {32, -1.5}}}});
  call->send(std::move(e));
  call->end();
  const json::value entry = c.answer().json().at("choices").at(0).at("logprobs").at("content").at(0);
  EXPECT_EQ(entry.at("token"), "A");
  EXPECT_EQ(entry.at("top_logprobs").at(1).at("token"), " ");
  EXPECT_EQ(entry.at("top_logprobs").at(1).at("bytes").at(0).as_int64(), 32);
}

TEST_F(completions, that_never_reach_the_service_are_answered_at_once) {
  start();
  EXPECT_EQ(post(chat_path, "{").status, 400);
  EXPECT_EQ(post(chat_path, R"({"messages":[{"role":"user","content":"\ud800"}]})").status, 400);
  EXPECT_EQ(post(chat_path, "{\"messages\":[{\"role\":\"user\",\"content\":\"\xFF\"}]}").status, 400);
  EXPECT_EQ(post(chat_path, std::string(chat_body) + ",\"x\":" + std::string(10'000, '[')).status, 400);
  EXPECT_EQ(post(chat_path, std::string(chat_body) + R"(,"model":"other"})").status, 404);
  const response r = post(chat_path, std::string(chat_body) + R"(,"response_format":{"type":"json_object"}})");
  EXPECT_EQ(r.status, 400);
  EXPECT_EQ(r.json().at("error").at("param"), "response_format");
  EXPECT_EQ(get(chat_path).status, 405);
  EXPECT_EQ(get(chat_path).headers.at("Allow"), "POST");
}

TEST_F(completions, of_many_threads_arrive_whole) {
  std::vector<std::thread> workers;
  std::mutex mutex;
  service_->script = [&](fake_call& call) {
    // The call outlives the handle through its sink; the thread needs only the sink's side.
    auto copy = std::make_shared<fake_call>(call.from, call.request, call.sink());
    const std::lock_guard lock(mutex);
    workers.emplace_back([copy] {
      copy->start();
      for (int i = 0; i < 200; ++i) copy->text(std::to_string(i) + ",");
      copy->end();
    });
  };
  start();
  std::string expected;
  for (int i = 0; i < 200; ++i) expected += std::to_string(i) + ",";
  std::vector<std::thread> clients;
  std::atomic<int> good = 0;
  for (int n = 0; n < 16; ++n) {
    clients.emplace_back([&, n] {
      raw_client c(path());
      for (int i = 0; i < 5; ++i) {
        c.post(chat_path, n % 2 == 0 ? streamed : whole);
        const response r = c.answer();
        std::string text;
        if (n % 2 != 0) {
          text = r.json().at("choices").at(0).at("message").at("content").as_string();
        } else {
          for (const std::string& e : events_of(r.body)) {
            if (e == "[DONE]") continue;
            const json::value v = json::parse(e);
            if (const json::value* t = v.at("choices").at(0).at("delta").as_object().if_contains("content")) {
              text += t->as_string();
            }
          }
        }
        good += text == expected ? 1 : 0;
      }
    });
  }
  for (auto& t : clients) t.join();
  for (auto& t : workers) t.join();
  EXPECT_EQ(good, 16 * 5);
}

}  // namespace
}  // namespace kvern::ipc
