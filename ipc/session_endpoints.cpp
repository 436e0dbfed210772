#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <limits>

#include "base/utf8.hpp"
#include "ipc/completion_format.hpp"
#include "ipc/completion_request.hpp"
#include "ipc/endpoint_replies.hpp"
#include "ipc/endpoints.hpp"
#include "ipc/errors.hpp"
#include "ipc/overflow_fields.hpp"
#include "ipc/prompt_fields.hpp"

/// The endpoints under /v1/sessions.
namespace kvern::ipc {
namespace {

namespace json = boost::json;

constexpr std::int64_t most_tokens = std::numeric_limits<std::int32_t>::max();

json::object to_json(const explanation& e) {
  json::object o = ipc::to_json(e.cache);
  o["first_divergence"] = nullptr;
  if (e.first_divergence) {
    json::object where;
    where["position"] = e.first_divergence->position;
    where["cached_token"] = e.first_divergence->cached_token;
    where["prompt_token"] = e.first_divergence->prompt_token;
    where["cached_text"] = utf8_repaired(e.first_divergence->cached_text);
    where["prompt_text"] = utf8_repaired(e.first_divergence->prompt_text);
    o["first_divergence"] = std::move(where);
  }
  o["message"] = e.message ? json::value(*e.message) : json::value(nullptr);
  return o;
}

session_settings read_settings(fields& body) {
  session_settings out;
  const auto overflow = read_overflow(body);
  out.overflow = overflow.value_or(gpu::overflow_policy::error);
  out.keep = read_keep(body, overflow, true).value_or(0);
  return out;
}

/// One prompt, as a chat or as a completion has it.
kvern::prompt read_prompt(fields& body, const model_info& model) {
  if (const auto name = body.string("model"); name && !names_model(*name, model)) {
    body.fail("model", fmt::format("is not served here; use \"{}\" or leave it out", model.id), "model_not_found");
  }
  if (body.find("messages") != nullptr) {
    if (body.find("prompt") != nullptr) body.fail("prompt", "cannot come together with messages");
    return read_chat(body);
  }
  auto prompts = read_prompts(body, model.vocab);
  if (prompts.size() > 1) body.fail("prompt", "must be a single one here");
  return prompts.empty() ? kvern::prompt() : std::move(prompts.front());
}

}  // namespace

void endpoints::create_session(const peer& who, std::string_view body, reply_to done) const {
  session_settings settings;
  if (!body.empty() && !with_fields(body, done, [&](fields& f) { settings = read_settings(f); })) return;
  service_->create_session(who, settings, session_reply(std::move(done)));
}

void endpoints::list_sessions(const peer& who, reply_to done) const {
  service_->list_sessions(who, [done = std::move(done)](result<std::vector<session_info>> list) mutable {
    if (!list) {
      done(error_reply(std::move(list.error())));
      return;
    }
    json::array data;
    data.reserve(list->size());
    for (const session_info& s : *list) data.push_back(ipc::to_json(s));
    done(json_reply({{"object", "list"}, {"data", std::move(data)}}));
  });
}

void endpoints::session(const peer& who, const http_request& request, std::string_view rest, reply_to done) const {
  const auto slash = rest.find('/');
  std::string id = percent_decoded(rest.substr(0, slash));
  if (slash != std::string_view::npos) {
    command(who, request, std::move(id), rest.substr(slash + 1), std::move(done));
  } else if (request.method == "GET" || request.method == "HEAD") {
    service_->get_session(who, std::move(id), session_reply(std::move(done)));
  } else if (request.method == "DELETE") {
    service_->delete_session(who, std::move(id), [done = std::move(done)](result<session_info> s) mutable {
      if (!s) {
        done(error_reply(std::move(s.error())));
        return;
      }
      json::object o = ipc::to_json(*s);
      o["deleted"] = true;
      done(json_reply(o));
    });
  } else {
    done(method_not_allowed("GET, HEAD, DELETE"));
  }
}

void endpoints::command(const peer& who, const http_request& request, std::string id, std::string_view verb,
                        reply_to done) const {
  if (verb == "export") {
    if (request.method == "GET") return export_session(who, std::move(id), std::move(done));
    return done(method_not_allowed("GET"));
  }
  const bool known = verb == "cancel" || verb == "fork" || verb == "rewind" || verb == "explain";
  if (!known) return done(not_found());
  if (!is_post(request, done)) return;
  if (verb == "cancel") {
    service_->cancel_session(who, std::move(id), session_reply(std::move(done)));
  } else if (verb == "fork") {
    fork_session(who, std::move(id), request.body, std::move(done));
  } else if (verb == "rewind") {
    rewind_session(who, std::move(id), request.body, std::move(done));
  } else {
    explain(who, std::move(id), request.body, std::move(done));
  }
}

void endpoints::fork_session(const peer& who, std::string id, std::string_view body, reply_to done) const {
  std::optional<std::int64_t> tokens;
  const auto read = [&](fields& f) { tokens = f.integer("tokens", 0, most_tokens); };
  if (!body.empty() && !with_fields(body, done, read)) return;
  service_->fork_session(who, std::move(id), tokens, session_reply(std::move(done), 201));
}

void endpoints::rewind_session(const peer& who, std::string id, std::string_view body, reply_to done) const {
  std::optional<std::int64_t> tokens;
  const auto read = [&](fields& f) {
    tokens = f.integer("tokens", 0, most_tokens);
    if (!tokens) f.fail("tokens", "is missing");
  };
  if (!with_fields(body, done, read)) return;
  service_->rewind_session(who, std::move(id), *tokens, [done = std::move(done)](result<rewound_session> r) mutable {
    if (!r) {
      done(error_reply(std::move(r.error())));
      return;
    }
    json::object o = ipc::to_json(r->session);
    o["reusable"] = r->reusable;
    done(json_reply(o));
  });
}

void endpoints::export_session(const peer& who, std::string id, reply_to done) const {
  service_->export_session(who, std::move(id), [done = std::move(done)](result<std::string> file) mutable {
    if (!file) {
      done(error_reply(std::move(file.error())));
      return;
    }
    http_reply reply;
    reply.body = *std::move(file);
    reply.content_type = "application/octet-stream";
    done(std::move(reply));
  });
}

void endpoints::explain(const peer& who, std::string id, std::string_view body, reply_to done) const {
  kvern::prompt prompt;
  if (!with_fields(body, done, [&](fields& f) { prompt = read_prompt(f, service_->model()); })) return;
  service_->explain(who, std::move(id), std::move(prompt), [done = std::move(done)](result<explanation> e) mutable {
    done(e ? json_reply(to_json(*e)) : error_reply(std::move(e.error())));
  });
}

}  // namespace kvern::ipc
