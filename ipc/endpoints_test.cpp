#include "ipc/endpoints.hpp"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "ipc/fake_service.hpp"

namespace kvern::ipc {
namespace {

namespace json = boost::json;

class endpoint : public ::testing::Test {
 protected:
  http_reply call(const std::string& method, const std::string& target, const std::string& body = {}) {
    std::optional<http_reply> reply;
    api_.handle({1000, 100, 7}, {method, target, body}, 5, [&](http_reply r) { reply = std::move(r); });
    EXPECT_TRUE(reply) << method << " " << target;
    return reply.value_or(http_reply{});
  }
  static std::string code(const http_reply& r) {
    return std::string(json::parse(r.body).at("error").at("code").as_string());
  }

  std::shared_ptr<fake_service> service_ = std::make_shared<fake_service>();
  endpoints api_{service_, std::chrono::milliseconds(500)};
};

TEST_F(endpoint, models) {
  const http_reply list = call("GET", "/v1/models?x=1");
  EXPECT_EQ(list.status, 200);
  const json::value v = json::parse(list.body);
  EXPECT_EQ(v.at("object"), "list");
  EXPECT_EQ(v.at("data").at(0).at("id"), "tiny");
  EXPECT_EQ(v.at("data").at(0).at("object"), "model");
  EXPECT_EQ(v.at("data").at(0).at("owned_by"), "kvern");
  EXPECT_EQ(v.at("data").at(0).at("kvern").at("context").as_int64(), 128);
  EXPECT_EQ(json::parse(call("GET", "/v1/models/tin%79").body).at("id"), "tiny");
  EXPECT_EQ(call("GET", "/v1/models/other").status, 404);
  EXPECT_EQ(code(call("GET", "/v1/models/other")), "model_not_found");
}

TEST_F(endpoint, tokenize_and_detokenize) {
  EXPECT_EQ(call("POST", "/v1/tokenize", R"({"text":"ab"})").body, R"({"tokens":[1,97,98],"count":3})");
  EXPECT_EQ(call("POST", "/v1/tokenize", R"({"text":"a","add_special":false,"parse_special":true})").body,
            R"({"tokens":[2,97],"count":2})");
  EXPECT_EQ(call("POST", "/v1/tokenize", "{}").status, 400);
  EXPECT_EQ(call("POST", "/v1/tokenize", R"({"text":3})").status, 400);
  EXPECT_EQ(call("POST", "/v1/tokenize", "").status, 400);
  EXPECT_EQ(call("POST", "/v1/detokenize", R"({"tokens":[97,98]})").body, R"({"text":"ab"})");
  // Bytes that are no text become U+FFFD: an answer is always valid JSON.
  EXPECT_EQ(call("POST", "/v1/detokenize", R"({"tokens":[97,255]})").body, "{\"text\":\"a\xEF\xBF\xBD\"}");
  for (const char* body :
       {R"({"tokens":[256]})", R"({"tokens":[-1]})", R"({"tokens":["a"]})", R"({"tokens":3})", "{}"}) {
    const http_reply r = call("POST", "/v1/detokenize", body);
    EXPECT_EQ(r.status, 400) << body;
    EXPECT_EQ(json::parse(r.body).at("error").at("param"), "tokens");
  }
}

TEST_F(endpoint, render) {
  const http_reply r = call("POST", "/v1/chat/render", R"({"messages":[{"role":"user","content":"hi"}],"tools":[{}]})");
  EXPECT_EQ(r.body, R"({"text":"<user>hi","tokens":[1,2,3]})");
  EXPECT_EQ(service_->last_chat.messages.as_array()->size(), 1u);
  EXPECT_EQ(service_->last_chat.tools.as_array()->size(), 1u);
  EXPECT_EQ(call("POST", "/v1/chat/render", R"({"messages":[]})").status, 400);
  service_->failure = error{"template_error", "roles must alternate"};
  const http_reply refused = call("POST", "/v1/chat/render", R"({"messages":[{"role":"user"}]})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(json::parse(refused.body).at("error").at("message"), "roles must alternate");
}

TEST_F(endpoint, sessions) {
  const http_reply made = call("POST", "/v1/sessions");
  EXPECT_EQ(made.status, 200);
  EXPECT_EQ(json::parse(made.body).at("id"), "s-1");
  EXPECT_EQ(json::parse(made.body).at("object"), "session");
  EXPECT_TRUE(json::parse(made.body).at("last_validation").is_null());
  EXPECT_EQ(service_->last_peer.uid, 1000u);
  EXPECT_EQ(call("POST", "/v1/sessions", "{}").status, 200);
  EXPECT_EQ(call("POST", "/v1/sessions", "[]").status, 400);

  const json::value list = json::parse(call("GET", "/v1/sessions").body);
  EXPECT_EQ(list.at("object"), "list");
  EXPECT_EQ(json::serialize(list.at("data").at(0).at("last_validation")),
            R"({"reused":3,"computed":4,"reason":"mismatch","first_divergence":3})");

  EXPECT_EQ(json::parse(call("GET", "/v1/sessions/s-1").body).at("id"), "s-1");
  EXPECT_EQ(call("GET", "/v1/sessions/s-2").status, 404);
  EXPECT_EQ(code(call("GET", "/v1/sessions/..%2f..%2fetc")), "session_not_found");
  EXPECT_EQ(json::parse(call("DELETE", "/v1/sessions/s-1").body).at("deleted"), true);
  EXPECT_EQ(call("DELETE", "/v1/sessions/s-2").status, 404);
  EXPECT_EQ(call("POST", "/v1/sessions/s-1/cancel").status, 200);
  EXPECT_EQ(call("POST", "/v1/sessions/s-2/cancel").status, 404);
  EXPECT_EQ(call("POST", "/v1/sessions/s-1/dance").status, 404);

  service_->failure = error{"too_many_sessions", "delete some"};
  EXPECT_EQ(call("POST", "/v1/sessions").status, 429);
}

TEST_F(endpoint, health) {
  service_->numbers.heartbeat_age_seconds = 30;
  EXPECT_EQ(call("GET", "/health").status, 200);  // idle: nothing to show life with
  service_->numbers.engine.running = 1;
  const http_reply stalled = call("GET", "/health");
  EXPECT_EQ(stalled.status, 503);
  EXPECT_EQ(json::parse(stalled.body).at("status"), "worker_stalled");
  EXPECT_EQ(json::parse(stalled.body).at("worker").at("heartbeat_age_seconds").as_double(), 30);
  service_->numbers.heartbeat_age_seconds = 0.25;
  EXPECT_EQ(json::parse(call("GET", "/health").body).at("status"), "ok");
  service_->numbers.worker_alive = false;
  EXPECT_EQ(call("GET", "/health").status, 503);
  EXPECT_EQ(json::parse(call("GET", "/health").body).at("status"), "worker_dead");
}

TEST_F(endpoint, health_tells_what_serves_and_how_full_it_is) {
  service_->numbers.backend.kernels = "avx2";
  service_->numbers.backend.page_bytes = std::uint64_t{3} << 30;
  service_->numbers.threads = 4;
  service_->numbers.kv_type = "f16";
  service_->numbers.activations = "fine";
  service_->numbers.engine.pages_used = 2;
  service_->numbers.engine.pages_total = 5;
  const json::value v = json::parse(call("GET", "/health").body);
  EXPECT_EQ(json::serialize(v.at("model")), R"({"id":"tiny","architecture":"llama","file_type":"Q4_1","context":128})");
  EXPECT_EQ(json::serialize(v.at("backend")), R"({"kernels":"avx2","threads":4,"kv_type":"f16","activations":"fine"})");
  EXPECT_EQ(json::serialize(v.at("cache")),
            R"({"pages_used":2,"pages_total":5,"page_bytes":3221225472,"bytes_used":6442450944,)"
            R"("bytes_total":16106127360})");
}

TEST_F(endpoint, metrics) {
  const http_reply page = call("GET", "/metrics");
  EXPECT_EQ(page.status, 200);
  EXPECT_TRUE(page.content_type.starts_with("text/plain"));
  EXPECT_NE(page.body.find("\nkvern_connections 5\n"), std::string::npos);
}

TEST_F(endpoint, unknown_paths_and_methods) {
  for (const char* path : {"/", "", "/v1", "/v1/model", "/V1/models", "/v1/embeddings", "/health/"}) {
    const http_reply r = call("GET", path);
    EXPECT_EQ(r.status, 404) << path;
    EXPECT_EQ(code(r), "not_found");
  }
  const std::pair<const char*, const char*> wrong[] = {{"POST", "/health"},
                                                       {"DELETE", "/v1/models"},
                                                       {"GET", "/v1/tokenize"},
                                                       {"PUT", "/v1/sessions"},
                                                       {"GET", "/v1/completions"},
                                                       {"PATCH", "/v1/sessions/s-1"},
                                                       {"GET", "/v1/sessions/s-1/cancel"},
                                                       {"OPTIONS", "/metrics"}};
  for (const auto& [method, path] : wrong) {
    const http_reply r = call(method, path);
    EXPECT_EQ(r.status, 405) << path;
    ASSERT_FALSE(r.headers.empty());
    EXPECT_EQ(r.headers[0].first, "Allow");
  }
}

TEST(completion_of, tells_the_two_completions_apart) {
  EXPECT_EQ(completion_of({"POST", "/v1/chat/completions?x", ""}), completion_kind::chat);
  EXPECT_EQ(completion_of({"POST", "/v1/completions", ""}), completion_kind::text);
  EXPECT_EQ(completion_of({"GET", "/v1/completions", ""}), std::nullopt);
  EXPECT_EQ(completion_of({"POST", "/v1/models", ""}), std::nullopt);
}

}  // namespace
}  // namespace kvern::ipc
