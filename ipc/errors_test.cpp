#include "ipc/errors.hpp"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

namespace kvern::ipc {
namespace {

TEST(errors, take_openai_s_shape) {
  const auto body = boost::json::parse(error_body({{"invalid_request", "top_p must be a number"}, "top_p"}));
  EXPECT_EQ(body.at("error").at("message"), "top_p must be a number");
  EXPECT_EQ(body.at("error").at("type"), "invalid_request_error");
  EXPECT_EQ(body.at("error").at("param"), "top_p");
  EXPECT_EQ(body.at("error").at("code"), "invalid_request");
  EXPECT_TRUE(boost::json::parse(error_body({{"worker_failed", "gone"}, ""})).at("error").at("param").is_null());
}

TEST(errors, map_codes_to_statuses) {
  EXPECT_EQ(status_of("context_length_exceeded"), 400);
  EXPECT_EQ(status_of("template_error"), 400);
  EXPECT_EQ(status_of("session_not_found"), 404);
  EXPECT_EQ(status_of("session_busy"), 409);
  EXPECT_EQ(status_of("queue_full"), 429);
  EXPECT_EQ(status_of("shutting_down"), 503);
  EXPECT_EQ(status_of("worker_failed"), 503);
  EXPECT_EQ(status_of("internal_error"), 500);
  EXPECT_EQ(status_of("no_finite_logit"), 500);
}

TEST(errors, say_when_to_retry) {
  const http_reply full = error_reply(error{"queue_full", "wait"});
  EXPECT_EQ(full.status, 429);
  ASSERT_EQ(full.headers.size(), 1u);
  EXPECT_EQ(full.headers[0].first, "Retry-After");
  EXPECT_EQ(boost::json::parse(full.body).at("error").at("type"), "rate_limit_error");
  EXPECT_EQ(boost::json::parse(error_reply(error{"worker_failed", ""}).body).at("error").at("type"), "server_error");
  EXPECT_TRUE(error_reply(error{"invalid_request", ""}).headers.empty());
}

TEST(errors, stay_valid_json_whatever_the_message_holds) {
  const std::string body = error_body({{"template_error", "bad \xFF\xED\xA0\x80 \"quoted\"\n"}, ""});
  EXPECT_NO_THROW(boost::json::parse(body));
}

}  // namespace
}  // namespace kvern::ipc
