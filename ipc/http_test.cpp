#include "ipc/http.hpp"

#include <gtest/gtest.h>

namespace kvern::ipc {
namespace {

TEST(http, takes_the_path_of_a_target) {
  EXPECT_EQ(path_of("/v1/models?x=/y"), "/v1/models");
  EXPECT_EQ(path_of("/health"), "/health");
  EXPECT_EQ(path_of(""), "");
}

TEST(http, decodes_percent_escapes) {
  EXPECT_EQ(percent_decoded("a%2Fb%20c"), "a/b c");
  EXPECT_EQ(percent_decoded("%"), "%");
  EXPECT_EQ(percent_decoded("%4"), "%4");
  EXPECT_EQ(percent_decoded("%zz%41"), "%zzA");
  EXPECT_EQ(percent_decoded("%+1"), "%+1");
  EXPECT_EQ(percent_decoded("%00"), std::string(1, '\0'));
}

TEST(http, writes_heads) {
  http_reply reply;
  reply.status = 429;
  reply.body = "{}";
  reply.headers.emplace_back("Retry-After", "1");
  EXPECT_EQ(reply_head(reply, true),
            "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
            "Retry-After: 1\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_NE(stream_head(true, true).find("Transfer-Encoding: chunked\r\n"), std::string::npos);
  EXPECT_NE(stream_head(true, true).find("Cache-Control: no-cache\r\n"), std::string::npos);
  EXPECT_EQ(stream_head(false, false).find("Transfer-Encoding"), std::string::npos);
  EXPECT_TRUE(stream_head(false, false).ends_with("Connection: close\r\n\r\n"));
}

TEST(http, frames_chunks) {
  EXPECT_EQ(chunk("0123456789abcdef"), "10\r\n0123456789abcdef\r\n");
  EXPECT_EQ(chunk(""), "");
}

}  // namespace
}  // namespace kvern::ipc
