#include "ipc/client/client.hpp"

#include <gmock/gmock.h>

#include <boost/json/parse.hpp>
#include <cstdlib>
#include <fstream>

#include "ipc/client/scripted_daemon.hpp"

namespace kvern::client {
namespace {

namespace json = boost::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

json::value body_of(const scripted_daemon& daemon) {
  return json::parse(daemon.request().substr(daemon.request().find("\r\n\r\n") + 4));
}

constexpr const char* chat_stream =
    "data: {\"choices\":[],\"usage\":null,\"kvern\":{\"progress\":{\"processed\":2,\"total\":5,\"percent\":40}}}\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"caf\\u00e9\"},\"finish_reason\":null}]}\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" \xf0\x9f\xa6\x80\"},\"finish_reason\":null}]}\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}],\"kvern\":{\"cache\":{\"reused\":3,"
    "\"computed\":2,\"reason\":\"extends\"},\"timings\":{\"prompt_tokens_per_second\":50.5}}}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2,\"prompt_tokens_details\":"
    "{\"cached_tokens\":3}}}\n\n";

TEST(client, a_chat_is_sent_with_its_options_and_its_stream_gathered) {
  const scripted_daemon daemon(http_answer("200 OK", std::string(chat_stream) + "data: [DONE]\n\n"));
  client c(daemon.path());
  options how;
  how.session = "s-1";
  how.max_tokens = 2;
  how.temperature = 0.5;
  how.seed = 18446744073709551615u;
  how.stop = {"x", "y"};
  std::vector<std::string> pieces;
  std::vector<std::int64_t> progress;
  observer watch;
  watch.on_text = [&](std::string_view piece) { pieces.emplace_back(piece); };
  watch.on_progress = [&](std::int64_t processed, std::int64_t total) { progress = {processed, total}; };
  const std::vector<message> talk{{"system", "be \"brief\""}, {"user", "h\xc3\xa9"}};
  const auto got = c.chat(talk, how, watch);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_THAT(pieces, ElementsAre("caf\xc3\xa9", " \xf0\x9f\xa6\x80"));
  EXPECT_THAT(progress, ElementsAre(2, 5));
  EXPECT_EQ(got->text, "caf\xc3\xa9 \xf0\x9f\xa6\x80");
  EXPECT_EQ(got->finish_reason, "length");
  EXPECT_EQ(got->prompt_tokens, 5);
  EXPECT_EQ(got->cached_tokens, 3);
  EXPECT_EQ(got->completion_tokens, 2);
  EXPECT_EQ(got->cache_reason, "extends");
  EXPECT_EQ(got->prompt_tokens_per_second, 50.5);
  EXPECT_THAT(got->raw, HasSubstr("\"cache\""));

  EXPECT_THAT(daemon.request(), StartsWith("POST /v1/chat/completions "));
  EXPECT_EQ(body_of(daemon), json::parse(R"({"stream":true,"stream_options":{"include_usage":true,
      "include_progress":true},"session":"s-1","max_tokens":2,"temperature":0.5,"seed":18446744073709551615,
      "stop":["x","y"],"messages":[{"role":"system","content":"be \"brief\""},{"role":"user","content":"hé"}]})"));
}

TEST(client, an_answer_that_ends_early_or_with_an_error_is_an_error) {
  const std::vector<message> talk{{"user", "hi"}};
  const std::string failed =
      "data: {\"error\":{\"message\":\"The service is stopping.\",\"code\":\"shutting_down\"}}\n\n";
  for (const auto& [stream, code] : {std::pair<std::string, std::string>{chat_stream, "unreachable"},
                                     {std::string(chat_stream) + failed, "shutting_down"},
                                     {"data: {broken\n\ndata: [DONE]\n\n", "protocol"}}) {
    const scripted_daemon daemon(http_answer("200 OK", stream));
    const auto got = client(daemon.path()).chat(talk, {});
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, code);
  }
}

TEST(client, the_daemons_refusal_is_the_callers_error) {
  const scripted_daemon daemon(
      http_answer("404 Not Found", R"({"error":{"message":"no such session","code":"session_not_found"}})"));
  const auto got = client(daemon.path()).complete("x", {});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, "session_not_found");
  EXPECT_EQ(got.error().message, "no such session");
}

TEST(client, text_that_is_not_utf8_is_not_sent) {
  client c("/nonexistent/s");
  const std::vector<message> talk{{"user", "fine"}, {"user", "caf\xe9"}};
  EXPECT_EQ(c.chat(talk, {}).error().code, "invalid_utf8");
  EXPECT_EQ(c.complete("\xed\xa0\x80", {}).error().code, "invalid_utf8");
  const auto tokens = c.tokenize("ab\xff");
  ASSERT_FALSE(tokens);
  EXPECT_EQ(tokens.error().code, "invalid_utf8");
  EXPECT_THAT(tokens.error().message, HasSubstr("byte 2"));
}

TEST(client, tokens_and_sessions) {
  {
    const scripted_daemon daemon(http_answer("200 OK", R"({"tokens":[1,49151],"count":2})"));
    EXPECT_THAT(client(daemon.path()).tokenize("x", false, true).value(), ElementsAre(1, 49151));
    EXPECT_EQ(body_of(daemon), json::parse(R"({"text":"x","add_special":false,"parse_special":true})"));
  }
  {
    const scripted_daemon daemon(http_answer("200 OK", R"({"tokens":[1.5]})"));
    EXPECT_EQ(client(daemon.path()).tokenize("x").error().code, "protocol");
  }
  {
    const scripted_daemon daemon(http_answer("200 OK", R"({"text":"hé"})"));
    const std::vector<token_id> ids{5, 6};
    EXPECT_EQ(client(daemon.path()).detokenize(ids).value(), "h\xc3\xa9");
    EXPECT_EQ(body_of(daemon), json::parse(R"({"tokens":[5,6]})"));
  }
  {
    const scripted_daemon daemon(http_answer("200 OK", R"({"id":"s-7"})"));
    EXPECT_EQ(client(daemon.path()).create_session().value(), "s-7");
  }
  {
    const scripted_daemon daemon(http_answer("200 OK", "{}"));
    EXPECT_TRUE(client(daemon.path()).delete_session("s-7"));
    EXPECT_THAT(daemon.request(), StartsWith("DELETE /v1/sessions/s-7 "));
  }
}

TEST(client, the_default_socket) {
  const test::scratch_folder folder;
  const auto mine = (folder.path() / "kvern.sock").string();
  ::unsetenv("KVERN_SOCKET");
  ::setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
  EXPECT_EQ(default_socket(), "/run/kvern/kvern.sock");
  std::ofstream{mine};
  EXPECT_EQ(default_socket(), mine);
  ::setenv("KVERN_SOCKET", "/elsewhere", 1);
  EXPECT_EQ(default_socket(), "/elsewhere");
  ::unsetenv("KVERN_SOCKET");
  ::unsetenv("XDG_RUNTIME_DIR");
}

}  // namespace
}  // namespace kvern::client
