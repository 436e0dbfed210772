
#include <gtest/gtest.h>

#include <thread>

#include "ipc/raw_client.hpp"

namespace kvern::ipc {
namespace {

using connections = served;

TEST_F(connections, keep_alive_between_requests) {
  start();
  raw_client c(path());
  for (int i = 0; i < 3; ++i) {
    c.request("GET", "/health");
    const response r = c.answer();
    EXPECT_EQ(r.status, 200);
    EXPECT_EQ(r.headers.at("Connection"), "keep-alive");
  }
  EXPECT_EQ(server_->connections(), 1);
}

TEST_F(connections, answer_pipelined_requests_in_order) {
  start();
  raw_client c(path());
  c.send(
      "GET /health HTTP/1.1\r\n\r\nGET /nowhere HTTP/1.1\r\n\r\nPOST /v1/tokenize HTTP/1.1\r\n"
      "Content-Length: 12\r\n\r\n{\"text\":\"a\"}GET /v1/models HTTP/1.1\r\n\r\n");
  EXPECT_EQ(c.answer().status, 200);
  EXPECT_EQ(c.answer().status, 404);
  EXPECT_EQ(c.answer().json().at("tokens").as_array().size(), 2u);
  EXPECT_EQ(c.answer().json().at("object"), "list");
}

TEST_F(connections, take_requests_byte_by_byte) {
  start();
  raw_client c(path());
  for (const char b : std::string("POST /v1/tokenize HTTP/1.1\r\nContent-Length: 12\r\n\r\n{\"text\":\"a\"}")) {
    ASSERT_TRUE(c.send(std::string(1, b)));
  }
  EXPECT_EQ(c.answer().status, 200);
}

TEST_F(connections, take_chunked_bodies) {
  start();
  raw_client c(path());
  c.request("POST", "/v1/tokenize", "", "Transfer-Encoding: chunked\r\n");
  c.send("5\r\n{\"tex\r\n7\r\nt\":\"a\"}\r\n0\r\n\r\n");
  EXPECT_EQ(c.answer().status, 200);
}

TEST_F(connections, answer_head_without_a_body) {
  start();
  raw_client c(path());
  c.request("HEAD", "/v1/models");
  const response r = c.answer(true);
  EXPECT_EQ(r.status, 200);
  EXPECT_GT(std::stoi(r.headers.at("Content-Length")), 10);
  c.request("GET", "/health");
  EXPECT_EQ(c.answer().status, 200);
}

TEST_F(connections, close_when_asked_to) {
  start();
  raw_client c(path());
  c.request("GET", "/health", "", "Connection: close\r\n");
  EXPECT_EQ(c.answer().headers.at("Connection"), "close");
  EXPECT_TRUE(c.closed());

  raw_client old(path());
  old.send("GET /health HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.answer().status, 200);
  EXPECT_TRUE(old.closed());
}

TEST_F(connections, answer_a_client_that_closed_its_sending_side) {
  start();
  raw_client c(path());
  c.post("/v1/tokenize", R"({"text":"a"})");
  c.half_close();
  EXPECT_EQ(c.answer().status, 200);
  EXPECT_TRUE(c.closed());
}

TEST_F(connections, say_go_on_to_those_who_ask) {
  start();
  raw_client c(path());
  c.request("POST", "/v1/tokenize", "", "Content-Length: 12\r\nExpect: 100-continue\r\n");
  EXPECT_EQ(c.until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  c.send(R"({"text":"a"})");
  EXPECT_EQ(c.answer().status, 200);

  raw_client other(path());
  other.request("POST", "/v1/tokenize", "", "Content-Length: 12\r\nExpect: magic\r\n");
  EXPECT_EQ(other.answer().status, 417);
}

TEST_F(connections, refuse_large_bodies_before_they_come) {
  start();
  raw_client c(path());
  c.request("POST", "/v1/tokenize", "", "Content-Length: 20000000\r\nExpect: 100-continue\r\n");
  const response r = c.answer();
  EXPECT_EQ(r.status, 413);
  EXPECT_EQ(r.code(), "body_too_large");
  EXPECT_EQ(r.headers.at("Connection"), "close");
  EXPECT_TRUE(c.closed());
}

TEST_F(connections, let_a_client_that_sends_too_much_read_why) {
  start();
  raw_client c(path());
  c.request("POST", "/v1/tokenize", "", "Content-Length: 20000000\r\n");
  EXPECT_TRUE(c.send(std::string(20'000'000, 'x')));
  EXPECT_EQ(c.answer().status, 413);
  c.half_close();
  EXPECT_TRUE(c.closed());
}

TEST_F(connections, bound_chunked_bodies_too) {
  server_options o;
  o.max_body_bytes = 1000;
  start(o);
  raw_client c(path());
  c.request("POST", "/v1/tokenize", "", "Transfer-Encoding: chunked\r\n");
  c.send("400\r\n" + std::string(1024, 'x') + "\r\n");
  EXPECT_EQ(c.answer().status, 413);
}

TEST_F(connections, take_larger_bodies_where_sessions_are_imported) {
  server_options o;
  o.max_body_bytes = 1000;
  o.max_body_memory = 1500;
  service_->import_limit = 5000;
  start(o);
  raw_client c(path());
  c.post("/v1/sessions/import", std::string(5000, 'x'));
  EXPECT_EQ(c.answer().status, 201);
  EXPECT_EQ(service_->file, std::string(5000, 'x'));
  c.post("/v1/tokenize", R"({"text":"a"})");
  EXPECT_EQ(c.answer().status, 200);
  c.post("/v1/tokenize", std::string(1001, ' '));
  EXPECT_EQ(c.answer().status, 413);
  EXPECT_EQ(post("/v1/sessions/import", std::string(5001, 'x')).status, 413);

  raw_client chunked(path());
  chunked.request("POST", "/v1/tokenize", "", "Transfer-Encoding: chunked\r\n");
  chunked.send("600\r\n" + std::string(0x600, 'x') + "\r\n");
  EXPECT_EQ(chunked.answer().status, 413);
}

TEST_F(connections, export_and_import_one_session_of_a_user_at_a_time) {
  service_->hold = true;
  service_->file = std::string(3 << 20, 'y');
  start();
  raw_client first(path());
  first.request("GET", "/v1/sessions/s-1/export");
  auto finish = service_->take_held();
  const response busy = post("/v1/sessions/import", "x");
  EXPECT_EQ(busy.status, 503);
  EXPECT_EQ(busy.code(), "server_busy");
  EXPECT_TRUE(busy.headers.contains("Retry-After"));
  EXPECT_EQ(get("/health").status, 200);
  finish();
  const response file = first.answer();
  EXPECT_EQ(file.headers.at("Content-Type"), "application/octet-stream");
  EXPECT_EQ(file.body, service_->file);
  // The answer to a further request comes after the room was given back.
  first.request("GET", "/health");
  EXPECT_EQ(first.answer().status, 200);
  EXPECT_EQ(post("/v1/sessions/import", "x").status, 201);
}

TEST_F(connections, bound_the_memory_of_all_bodies) {
  server_options o;
  o.max_body_bytes = 1000;
  o.max_body_memory = 1500;
  start(o);
  raw_client first(path());
  first.request("POST", "/v1/tokenize", "", "Content-Length: 1000\r\nExpect: 100-continue\r\n");
  first.until("\r\n\r\n");
  raw_client second(path());
  second.request("POST", "/v1/tokenize", "", "Content-Length: 1000\r\n");
  const response r = second.answer();
  EXPECT_EQ(r.status, 503);
  EXPECT_EQ(r.code(), "server_busy");
  EXPECT_TRUE(r.headers.contains("Retry-After"));
  first.send(R"({"text":")" + std::string(989, 'x') + R"("})");
  EXPECT_EQ(first.answer().status, 200);
  raw_client third(path());
  third.request("POST", "/v1/tokenize", R"({"text":")" + std::string(900, 'x') + R"("})");
  EXPECT_EQ(third.answer().status, 200);
}

TEST_F(connections, bound_headers) {
  start();
  raw_client c(path());
  c.request("GET", "/health", "", "X-Long: " + std::string(20'000, 'x') + "\r\n");
  EXPECT_EQ(c.answer().status, 431);
  EXPECT_EQ(get("/health").status, 200);
}

TEST_F(connections, refuse_what_is_no_http) {
  start();
  for (const std::string text :
       {"hello\r\n\r\n", "GET /health\r\n\r\n", "GET /health HTTP/9.9\r\n\r\n",
        "GET /health HTTP/1.1\r\nBad Header\r\n\r\n", "POST /v1/tokenize HTTP/1.1\r\nContent-Length: abc\r\n\r\n",
        "POST /v1/tokenize HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        "POST /v1/tokenize HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
    raw_client c(path());
    c.send(text);
    const response r = c.answer();
    EXPECT_EQ(r.status, 400) << text;
    EXPECT_EQ(r.code(), "bad_http") << text;
  }
  EXPECT_EQ(get("/health").status, 200);
}

TEST_F(connections, end_when_headers_or_bodies_take_too_long) {
  server_options o;
  o.header_timeout = std::chrono::milliseconds(50);
  o.body_timeout = std::chrono::milliseconds(50);
  start(o);
  raw_client headers(path());
  headers.send("GET /health HTT");
  EXPECT_TRUE(headers.closed());
  raw_client body(path());
  body.send("POST /v1/tokenize HTTP/1.1\r\nContent-Length: 10\r\n\r\n{");
  EXPECT_TRUE(body.closed());
  EXPECT_EQ(get("/health").status, 200);
}

TEST_F(connections, end_when_idle) {
  server_options o;
  o.idle_timeout = std::chrono::seconds(1);
  start(o);
  raw_client c(path());
  c.request("GET", "/health");
  EXPECT_EQ(c.answer().status, 200);
  EXPECT_TRUE(c.closed());
}

TEST_F(connections, survive_clients_that_send_and_leave) {
  start();
  for (int i = 0; i < 50; ++i) {
    raw_client c(path());
    c.send(i % 2 == 0 ? "POST /v1/tokenize HTTP/1.1\r\nContent-Length: 100\r\n\r\n{"
                      : "GET /v1/models HTTP/1.1\r\n\r\n");
  }
  EXPECT_EQ(get("/health").status, 200);
}

TEST_F(connections, do_not_wait_for_lost_replies) {
  service_->hold = true;
  start();
  raw_client c(path());
  c.post("/v1/tokenize", R"({"text":"a"})");
  service_->take_held();  // dropped, never called
  const response r = c.answer();
  EXPECT_EQ(r.status, 503);
  EXPECT_EQ(r.code(), "worker_failed");
}

TEST_F(connections, take_replies_of_other_threads) {
  service_->hold = true;
  start();
  raw_client c(path());
  c.post("/v1/tokenize", R"({"text":"a"})");
  auto held = service_->take_held();
  EXPECT_EQ(get("/health").status, 200);  // others are served meanwhile
  std::thread([h = std::move(held)]() mutable { h(); }).join();
  EXPECT_EQ(c.answer().status, 200);
}

}  // namespace
}  // namespace kvern::ipc
