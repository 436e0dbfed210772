#include "ipc/endpoints.hpp"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "base/utf8.hpp"
#include "ipc/completion_format.hpp"
#include "ipc/endpoint_replies.hpp"
#include "ipc/errors.hpp"
#include "ipc/json_reader.hpp"
#include "ipc/metrics.hpp"
#include "ipc/prompt_fields.hpp"

namespace kvern::ipc {
namespace {

namespace json = boost::json;

constexpr std::string_view session_prefix = "/v1/sessions/";
constexpr std::string_view import_path = "/v1/sessions/import";

/// What serves requests, and how full it is.
void add_outfit(json::object& o, const model_info& m, const service_stats& s) {
  json::object model;
  model["id"] = utf8_repaired(m.id);
  model["architecture"] = utf8_repaired(m.architecture);
  model["file_type"] = utf8_repaired(m.file_type);
  model["context"] = m.context;
  model["fingerprint"] = utf8_repaired(m.fingerprint);
  json::object backend;
  backend["kernels"] = utf8_repaired(s.backend.kernels);
  backend["threads"] = s.threads;
  backend["kv_type"] = utf8_repaired(s.cache.kv_type);
  backend["activations"] = utf8_repaired(s.activations);
  json::object cache;
  cache["layout"] = s.cache.layout;
  cache["update"] = s.cache.update;
  cache["stacked"] = s.cache.stacked;
  cache["stage_stacked"] = s.cache.stage_stacked;
  cache["kv_type"] = s.cache.kv_type;
  cache["int8_scale"] = s.cache.int8_scale.empty() ? json::value(nullptr) : json::value(s.cache.int8_scale);
  cache["shards"] = s.cache.shards;
  cache["pages_used"] = s.engine.pages_used;
  cache["pages_shared"] = s.engine.pages_shared;
  cache["pages_total"] = s.engine.pages_total;
  cache["page_bytes"] = s.backend.page_bytes;
  cache["bytes_used"] = static_cast<std::uint64_t>(s.engine.pages_used) * s.backend.page_bytes;
  cache["bytes_total"] = static_cast<std::uint64_t>(s.engine.pages_total) * s.backend.page_bytes;
  o["model"] = std::move(model);
  o["backend"] = std::move(backend);
  o["cache"] = std::move(cache);
  o["prompt_lookup"] = json::object{{"mode", s.prompt_lookup},
                                    {"drafted_tokens", s.engine.drafted_tokens},
                                    {"accepted_tokens", s.engine.accepted_tokens}};
}

json::object to_json(const model_info& m) {
  json::object details;
  details["architecture"] = utf8_repaired(m.architecture);
  details["description"] = utf8_repaired(m.description);
  details["file_type"] = utf8_repaired(m.file_type);
  details["fingerprint"] = utf8_repaired(m.fingerprint);
  details["context"] = m.context;
  details["trained_context"] = m.trained_context;
  details["vocab"] = m.vocab;
  details["parameters"] = m.parameters;
  details["file_bytes"] = m.file_bytes;
  details["has_chat_template"] = m.has_chat_template;
  json::object o;
  o["id"] = utf8_repaired(m.id);
  o["object"] = "model";
  o["created"] = m.created;
  o["owned_by"] = "kvern";
  o["max_model_len"] = m.context;
  o["kvern"] = std::move(details);
  return o;
}

}  // namespace

std::optional<completion_kind> completion_of(const http_request& request) {
  if (request.method != "POST") return std::nullopt;
  const std::string_view path = path_of(request.target);
  for (const completion_kind kind : {completion_kind::chat, completion_kind::text}) {
    if (path == path_of(kind)) return kind;
  }
  return std::nullopt;
}

transfer_kind transfer_of(std::string_view method, std::string_view target) {
  const auto path = path_of(target);
  if (method == "POST" && path == import_path) return transfer_kind::in;
  const bool exports = path.starts_with(session_prefix) && path.ends_with("/export");
  return exports && method == "GET" ? transfer_kind::out : transfer_kind::none;
}

endpoints::endpoints(std::shared_ptr<service> s, std::chrono::milliseconds stall_after)
    : service_(std::move(s)), stall_after_(stall_after) {}

void endpoints::handle(const peer& who, http_request request, std::int64_t connections, reply_to done) const {
  constexpr std::string_view model_prefix = "/v1/models/";
  const std::string_view path = path_of(request.target);
  if (path == "/health") {
    if (is_get(request, done)) done(health());
  } else if (path == "/metrics") {
    if (!is_get(request, done)) return;
    http_reply page;
    page.body = metrics_page(service_->stats(), service_->model(), connections);
    page.content_type = metrics_type;
    done(std::move(page));
  } else if (path == "/v1/models") {
    if (is_get(request, done)) done(models());
  } else if (path.starts_with(model_prefix)) {
    if (is_get(request, done)) done(model(path.substr(model_prefix.size())));
  } else if (path == "/v1/tokenize") {
    if (is_post(request, done)) tokenize(request.body, std::move(done));
  } else if (path == "/v1/detokenize") {
    if (is_post(request, done)) detokenize(request.body, std::move(done));
  } else if (path == "/v1/chat/render") {
    if (is_post(request, done)) render(request.body, std::move(done));
  } else if (path == "/v1/sessions") {
    if (request.method == "POST") {
      create_session(who, request.body, std::move(done));
    } else if (request.method == "GET" || request.method == "HEAD") {
      list_sessions(who, std::move(done));
    } else {
      done(method_not_allowed("GET, HEAD, POST"));
    }
  } else if (path == import_path) {
    if (!is_post(request, done)) return;
    service_->import_session(who, std::move(request.body), session_reply(std::move(done), 201));
  } else if (path.starts_with(session_prefix)) {
    session(who, request, path.substr(session_prefix.size()), std::move(done));
  } else if (path == path_of(completion_kind::chat) || path == path_of(completion_kind::text)) {
    done(method_not_allowed("POST"));
  } else {
    done(not_found());
  }
}

http_reply endpoints::health() const {
  const service_stats s = service_->stats();
  const bool has_work = s.engine.running + s.engine.queued > 0;
  const bool stalled = has_work && s.heartbeat_age_seconds > stall_after_.count();
  json::object worker;
  worker["alive"] = s.worker_alive;
  worker["heartbeat_age_seconds"] = s.heartbeat_age_seconds;
  json::object o;
  o["status"] = !s.worker_alive ? "worker_dead" : stalled ? "worker_stalled" : "ok";
  o["worker"] = std::move(worker);
  o["running"] = s.engine.running;
  o["queued"] = s.engine.queued;
  o["sessions"] = s.sessions;
  o["uptime_seconds"] = s.uptime_seconds;
  add_outfit(o, service_->model(), s);
  http_reply reply = json_reply(o);
  reply.status = s.worker_alive && !stalled ? 200 : 503;
  reply.headers.emplace_back("Cache-Control", "no-store");
  return reply;
}

http_reply endpoints::models() const {
  return json_reply({{"object", "list"}, {"data", json::array{to_json(service_->model())}}});
}

http_reply endpoints::model(std::string_view id) const {
  if (!names_model(percent_decoded(id), service_->model())) {
    return error_reply(error{"model_not_found", fmt::format("no such model; \"{}\" is served", service_->model().id)});
  }
  return json_reply(to_json(service_->model()));
}

void endpoints::tokenize(std::string_view body, reply_to done) const {
  text_prompt prompt;
  const bool good = with_fields(body, done, [&](fields& f) {
    if (auto text = f.string("text")) {
      prompt.text = *std::move(text);
    } else {
      f.fail("text", "is missing");
    }
    prompt.add_special = f.boolean("add_special").value_or(true);
    prompt.parse_special = f.boolean("parse_special").value_or(false);
  });
  if (!good) return;
  service_->tokenize(std::move(prompt), [done = std::move(done)](result<std::vector<token_id>> tokens) mutable {
    done(tokens ? json_reply({{"tokens", ipc::to_json(*tokens)}, {"count", tokens->size()}})
                : error_reply(std::move(tokens.error())));
  });
}

void endpoints::detokenize(std::string_view body, reply_to done) const {
  std::vector<token_id> tokens;
  const bool good = with_fields(body, done, [&](fields& f) {
    if (const json::array* ids = f.array("tokens")) {
      tokens = read_tokens(f, "tokens", *ids, service_->model().vocab);
    } else {
      f.fail("tokens", "is missing");
    }
  });
  if (!good) return;
  service_->detokenize(std::move(tokens), [done = std::move(done)](result<std::string> text) mutable {
    done(text ? json_reply({{"text", utf8_repaired(*text)}}) : error_reply(std::move(text.error())));
  });
}

void endpoints::render(std::string_view body, reply_to done) const {
  chat_prompt chat;
  if (!with_fields(body, done, [&](fields& f) { chat = read_chat(f); })) return;
  service_->render(std::move(chat), [done = std::move(done)](result<service::rendered> r) mutable {
    done(r ? json_reply({{"text", utf8_repaired(r->text)}, {"tokens", ipc::to_json(r->tokens)}})
           : error_reply(std::move(r.error())));
  });
}

}  // namespace kvern::ipc
