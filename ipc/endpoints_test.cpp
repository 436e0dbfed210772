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
            R"({"reused":3,"shared":2,"computed":4,"reason":"mismatch","first_divergence":3})");
  EXPECT_FALSE(list.at("data").at(0).as_object().contains("pages"));

  EXPECT_EQ(json::parse(call("GET", "/v1/sessions/s-1").body).at("id"), "s-1");
  EXPECT_EQ(call("GET", "/v1/sessions/s-2").status, 404);
  EXPECT_EQ(code(call("GET", "/v1/sessions/..%2f..%2fetc")), "session_not_found");
  EXPECT_EQ(json::parse(call("DELETE", "/v1/sessions/s-1").body).at("deleted"), true);
  EXPECT_EQ(call("DELETE", "/v1/sessions/s-2").status, 404);
  EXPECT_EQ(call("POST", "/v1/sessions/s-1/cancel").status, 200);
  EXPECT_EQ(call("POST", "/v1/sessions/s-2/cancel").status, 404);
  EXPECT_EQ(call("POST", "/v1/sessions/s-1/dance").status, 404);

  EXPECT_EQ(call("POST", "/v1/sessions", R"({"overflow":"rotate","keep":40})").status, 200);
  EXPECT_EQ(service_->last_settings, (session_settings{gpu::overflow_policy::rotate, 40}));
  for (const char* wrong : {R"({"keep":40})", R"({"overflow":"never"})", R"({"overflow":"stop","keep":1})"})
    EXPECT_EQ(call("POST", "/v1/sessions", wrong).status, 400) << wrong;

  service_->failure = error{"too_many_sessions", "delete some"};
  EXPECT_EQ(call("POST", "/v1/sessions").status, 429);
}

TEST_F(endpoint, a_session_tells_what_the_worker_holds_of_it) {
  service_->cached = gpu::sequence_info{70, 69, 64, 5, 3, 2, 4096};
  const json::value v = json::parse(call("GET", "/v1/sessions/s-1").body);
  EXPECT_EQ(v.at("committed").as_int64(), 69);
  EXPECT_EQ(v.at("reusable").as_int64(), 64);
  EXPECT_EQ(v.at("forgotten").as_int64(), 5);
  EXPECT_EQ(v.at("pages").as_int64(), 3);
  EXPECT_EQ(v.at("shared_pages").as_int64(), 2);
  EXPECT_EQ(v.at("bytes").as_int64(), 4096);
  EXPECT_EQ(v.at("overflow"), "error");
  EXPECT_EQ(v.at("keep").as_int64(), 0);
}

TEST_F(endpoint, sessions_are_forked_and_rewound) {
  EXPECT_EQ(call("POST", "/v1/sessions/s-1/fork").status, 201);
  EXPECT_FALSE(service_->last_count);
  EXPECT_EQ(call("POST", "/v1/sessions/s-1/fork", R"({"tokens":12})").status, 201);
  EXPECT_EQ(service_->last_count, 12);
  EXPECT_EQ(call("POST", "/v1/sessions/s-2/fork").status, 404);
  const json::value back = json::parse(call("POST", "/v1/sessions/s-1/rewind", R"({"tokens":9})").body);
  EXPECT_EQ(back.at("tokens").as_int64(), 9);
  EXPECT_EQ(back.at("reusable").as_int64(), 8);
  EXPECT_EQ(back.at("object"), "session");
  for (const char* wrong : {"", "{}", R"({"tokens":-1})", R"({"tokens":"3"})", R"({"tokens":1.5})"})
    EXPECT_EQ(call("POST", "/v1/sessions/s-1/rewind", wrong).status, 400) << wrong;
  EXPECT_EQ(call("POST", "/v1/sessions/s-1/fork", R"({"tokens":-1})").status, 400);
  service_->failure = error{"session_busy", "it runs"};
  EXPECT_EQ(call("POST", "/v1/sessions/s-1/rewind", R"({"tokens":9})").status, 409);
}

TEST_F(endpoint, sessions_are_exported_and_imported) {
  service_->file = std::string("\0\xff bytes", 8);
  const http_reply file = call("GET", "/v1/sessions/s-1/export");
  EXPECT_EQ(file.status, 200);
  EXPECT_EQ(file.content_type, "application/octet-stream");
  EXPECT_EQ(file.body, service_->file);
  const http_reply made = call("POST", "/v1/sessions/import", std::string("\x80\0 file", 7));
  EXPECT_EQ(made.status, 201);
  EXPECT_EQ(json::parse(made.body).at("id"), "s-1");
  EXPECT_EQ(service_->file, std::string("\x80\0 file", 7));
  service_->failure = error{"invalid_session_file", "cut"};
  EXPECT_EQ(call("POST", "/v1/sessions/import", "x").status, 400);
  service_->failure = error{"session_file_mismatch", "of another model"};
  EXPECT_EQ(call("POST", "/v1/sessions/import", "x").status, 409);
  EXPECT_EQ(transfer_of("POST", "/v1/sessions/import?x"), transfer_kind::in);
  EXPECT_EQ(transfer_of("GET", "/v1/sessions/s-1/export"), transfer_kind::out);
  EXPECT_EQ(transfer_of("GET", "/v1/sessions/s-1"), transfer_kind::none);
  EXPECT_EQ(transfer_of("GET", "/v1/sessions/import"), transfer_kind::none);
}

TEST_F(endpoint, prompts_are_explained) {
  service_->explained.cache = {3, 5, cache_reason::mismatch, 3, 1};
  service_->explained.first_divergence = divergence{3, 11, 12, "old", "new\xff"};
  service_->explained.message = 2;
  const http_reply r =
      call("POST", "/v1/sessions/s-1/explain", R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":3})");
  EXPECT_EQ(r.body, R"({"reused":3,"shared":1,"computed":5,"reason":"mismatch","first_divergence":{"position":3,)"
                    R"("cached_token":11,"prompt_token":12,"cached_text":"old","prompt_text":"new)"
                    "\xEF\xBF\xBD"
                    R"("},"message":2})");
  EXPECT_TRUE(std::holds_alternative<chat_prompt>(service_->last_prompt));
  service_->explained = {};
  EXPECT_EQ(call("POST", "/v1/sessions/s-1/explain", R"({"prompt":[1,2]})").body,
            R"({"reused":0,"shared":0,"computed":0,"reason":"empty","first_divergence":null,"message":null})");
  EXPECT_EQ(std::get<std::vector<token_id>>(service_->last_prompt), (std::vector<token_id>{1, 2}));
  for (const char* wrong : {"", "{}", R"({"prompt":["a","b"]})", R"({"prompt":"a","messages":[]})",
                            R"({"prompt":"a","messages":[{"role":"user"}]})", R"({"prompt":[999]})"})
    EXPECT_EQ(call("POST", "/v1/sessions/s-1/explain", wrong).status, 400) << wrong;
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
  service_->numbers.cache = {"ring", "eager", false, true, "int8", "head", 2};
  service_->numbers.engine.pages_shared = 1;
  service_->info.fingerprint = "0a";
  service_->numbers.activations = "fine";
  service_->numbers.engine.pages_used = 2;
  service_->numbers.engine.pages_total = 5;
  service_->numbers.prompt_lookup = "auto";
  service_->numbers.engine.drafted_tokens = 8;
  service_->numbers.engine.accepted_tokens = 6;
  const json::value v = json::parse(call("GET", "/health").body);
  EXPECT_EQ(json::serialize(v.at("model")),
            R"({"id":"tiny","architecture":"llama","file_type":"Q4_1","context":128,"fingerprint":"0a"})");
  EXPECT_EQ(json::serialize(v.at("backend")),
            R"({"kernels":"avx2","threads":4,"kv_type":"int8","activations":"fine"})");
  EXPECT_EQ(
      json::serialize(v.at("cache")),
      R"({"layout":"ring","update":"eager","stacked":false,"stage_stacked":true,"kv_type":"int8",)"
      R"("int8_scale":"head","shards":2,"pages_used":2,"pages_shared":1,"pages_total":5,"page_bytes":3221225472,"bytes_used":6442450944,)"
      R"("bytes_total":16106127360})");
  EXPECT_EQ(json::serialize(v.at("prompt_lookup")), R"({"mode":"auto","drafted_tokens":8,"accepted_tokens":6})");
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
                                                       {"GET", "/v1/sessions/s-1/fork"},
                                                       {"POST", "/v1/sessions/s-1/export"},
                                                       {"GET", "/v1/sessions/import"},
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
