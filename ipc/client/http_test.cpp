#include "ipc/client/http.hpp"

#include <gmock/gmock.h>

#include "ipc/client/scripted_daemon.hpp"

namespace kvern::client {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(client_http, sends_a_request_and_gives_status_and_body) {
  const scripted_daemon daemon(http_answer("404 Not Found", "gone"));
  http line(daemon.path());
  const auto got = line.exchange("POST", "/v1/x", "{\"a\":1}");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->status, 404);
  EXPECT_EQ(got->body, "gone");
  EXPECT_THAT(daemon.request(), StartsWith("POST /v1/x HTTP/1.1\r\nHost: "));
  EXPECT_THAT(daemon.request(), HasSubstr("Content-Length: 7\r\n\r\n{\"a\":1}"));
}

TEST(client_http, a_chunked_body_is_handed_over_as_it_comes) {
  const scripted_daemon daemon(
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n");
  std::string pieces;
  const auto got = http(daemon.path()).exchange("GET", "/", {}, [&](std::string_view piece) { pieces += piece; });
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(pieces, "onetwo");
  EXPECT_EQ(got->body, "");
}

TEST(client_http, what_is_cut_off_is_an_error) {
  for (const auto* answer :
       {"H", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n", "not HTTP at all\r\n\r\n"}) {
    const scripted_daemon daemon(answer);
    const auto got = http(daemon.path()).exchange("GET", "/", {});
    ASSERT_FALSE(got) << answer;
    EXPECT_EQ(got.error().code, "unreachable") << answer;
  }
}

TEST(client_http, nobody_listens) {
  for (const auto& path : {std::string("/nonexistent/s"), std::string(200, 'x')}) {
    const auto got = http(path).exchange("GET", "/", {});
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, "unreachable");
    EXPECT_THAT(got.error().message, HasSubstr(path));
  }
}

TEST(client_http, a_target_cannot_smuggle_a_header) {
  for (const auto* target : {"/a b", "/a\r\nX: y", ""}) {
    const auto got = http("/nonexistent/s").exchange("GET", target, {});
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, "protocol") << target;
  }
}

TEST(client_http, cancel_ends_the_exchange_from_another_thread) {
  const scripted_daemon daemon("");
  http line(daemon.path());
  std::thread impatient([&] {
    daemon.wait_for_request();
    line.cancel();
  });
  const auto got = line.exchange("GET", "/", {});
  impatient.join();
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, "cancelled");
}

}  // namespace
}  // namespace kvern::client
