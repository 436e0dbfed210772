#include "ipc/request_log.hpp"

#include <gtest/gtest.h>

#include "ipc/log_capture.hpp"
#include "ipc/raw_client.hpp"

namespace kvern::ipc {
namespace {

finished_request finished() {
  finished_request r;
  r.user = 1000;
  r.session = true;
  r.tokens = {12, 40, 8};
  r.finish = "stop";
  r.milliseconds = 812.46;
  return r;
}

TEST(request_log, has_one_line_for_a_generation) {
  const log_capture log;
  write_log(finished());
  finished_request text;
  text.kind = completion_kind::text;
  text.failure = error{"queue_full", "wait"};
  write_log(text);
  EXPECT_EQ(log.all(),
            (std::vector<std::string>{
                "info POST /v1/chat/completions uid=1000 session=yes prompt=12 cached=8 completion=40 finish=stop "
                "ms=812.5",
                "info POST /v1/completions uid=0 session=no prompt=0 cached=0 completion=0 error=queue_full ms=0.0"}));
}

TEST(request_log, warns_of_what_no_client_caused) {
  for (const char* code : {"internal_error", "no_finite_logit", "worker_failed"}) {
    const log_capture log;
    finished_request r = finished();
    r.failure = error{code, "went\nbad"};
    write_log(r);
    const std::string line = log.wait_for(code);
    EXPECT_TRUE(line.starts_with("warning ")) << line;
    EXPECT_TRUE(line.ends_with(R"(ms=812.5: "went\nbad")")) << line;
  }
  for (const char* code : {"shutting_down", "session_busy", "invalid_request", "template_error", "server_busy"}) {
    const log_capture log;
    finished_request r;
    r.failure = error{code, "secret"};
    write_log(r);
    const std::string line = log.wait_for(code);
    EXPECT_TRUE(line.starts_with("info ")) << line;
    EXPECT_EQ(line.find("secret"), std::string::npos);
  }
}

TEST(request_log, keeps_other_requests_for_debugging) {
  const log_capture log;
  write_log("GET", "/v1/\x1B[2J\n?q=1", 7, 404, 1);
  write_log("GET", "/" + std::string(1000, 'x'), 7, 404, 1);
  write_log("POST", "/v1/sessions", 7, 500, 1);
  const auto lines = log.all();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], R"(debug GET "/v1/\x1b[2J\n" uid=7 status=404 ms=1.0)");
  EXPECT_LT(lines[1].size(), 200u);
  EXPECT_EQ(lines[2], R"(warning POST "/v1/sessions" uid=7 status=500 ms=1.0)");
}

class logged : public served {};

TEST_F(logged, requests_tell_how_they_ended_and_nothing_of_their_text) {
  start();
  const std::string prompt = "a confidential question";
  const std::string body = R"({"session":"s-1","messages":[{"role":"user","content":")" + prompt + R"("}])";
  const std::string who = "uid=" + std::to_string(::getuid());
  const std::pair<const char*, gpu::finish_reason> cases[] = {{",\"stream\":true}", gpu::finish_reason::length},
                                                              {"}", gpu::finish_reason::stop}};
  for (const auto& [stream, reason] : cases) {
    raw_client c(path());
    const auto call = ask(c, chat_path, body + stream);
    call->start(5, {3, 2, cache_reason::extends, std::nullopt});
    call->text("a confidential answer");
    call->end(reason);
    EXPECT_EQ(c.answer().status, 200);
    const std::string finish = "finish=" + std::string(name_of(reason)) + " ms=";
    EXPECT_TRUE(log_.wait_for(finish).starts_with("info POST /v1/chat/completions " + who +
                                                  " session=yes prompt=5 cached=3 completion=1 " + finish));
  }
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"confidential","temperature":-1})").status, 400);
  EXPECT_NE(log_.wait_for("POST /v1/completions").find("error=invalid_request"), std::string::npos);
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_TRUE(log_.wait_for("/health").starts_with("debug GET \"/health\" uid="));
  std::size_t generations = 0;
  for (const std::string& line : log_.all()) {
    EXPECT_EQ(line.find("confidential"), std::string::npos) << line;
    generations += line.starts_with("info ") ? 1u : 0u;
  }
  EXPECT_EQ(generations, 3u);
}

TEST_F(logged, clients_that_leave_and_generations_that_fail) {
  start();
  raw_client c(path());
  const auto left = ask(c, "/v1/completions", R"({"prompt":"x"})");
  left->start(4);
  left->text("so far");
  c.close();
  EXPECT_NE(log_.wait_for("client_left").find("finish=client_left"), std::string::npos);

  raw_client other(path());
  const auto failing = ask(other, "/v1/completions", R"({"prompt":"x","stream":true})");
  failing->start(4);
  failing->text("so far");
  failing->end(gpu::finish_reason::failed, {"internal_error", "a part broke"});
  const std::string line = log_.wait_for("internal_error");
  EXPECT_TRUE(line.starts_with("warning POST /v1/completions")) << line;
  EXPECT_NE(line.find("prompt=4 cached=0 completion=1 error=internal_error"), std::string::npos) << line;
}

}  // namespace
}  // namespace kvern::ipc
