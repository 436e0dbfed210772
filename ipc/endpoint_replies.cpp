#include "ipc/endpoint_replies.hpp"

#include <fmt/format.h>

#include <boost/json/serialize.hpp>

#include "base/utf8.hpp"
#include "ipc/completion_format.hpp"
#include "ipc/errors.hpp"

namespace kvern::ipc {

namespace json = boost::json;

http_reply json_reply(const json::object& o, int status) {
  http_reply reply;
  reply.status = status;
  reply.body = json::serialize(o);
  return reply;
}

http_reply method_not_allowed(std::string_view allow) {
  http_reply reply =
      error_reply(error{"method_not_allowed", fmt::format("this path takes {} only; see docs/protocol.md", allow)});
  reply.headers.emplace_back("Allow", allow);
  return reply;
}

http_reply not_found() { return error_reply(error{"not_found", "there is no such path; see docs/protocol.md"}); }

bool is_get(const http_request& request, endpoints::reply_to& done) {
  if (request.method == "GET" || request.method == "HEAD") return true;
  done(method_not_allowed("GET, HEAD"));
  return false;
}

bool is_post(const http_request& request, endpoints::reply_to& done) {
  if (request.method == "POST") return true;
  done(method_not_allowed("POST"));
  return false;
}

json::object to_json(const session_info& s) {
  json::object o;
  o["id"] = utf8_repaired(s.id);
  o["object"] = "session";
  o["tokens"] = s.tokens;
  o["committed"] = s.cached ? s.cached->committed : s.committed;
  o["turns"] = s.turns;
  o["running"] = s.running;
  o["created"] = s.created;
  o["last_used"] = s.last_used;
  o["overflow"] = to_string(s.settings.overflow);
  o["keep"] = s.settings.keep;
  o["forgotten"] = s.cached ? s.cached->forgotten : s.forgotten;
  if (s.cached) {
    o["reusable"] = s.cached->reusable;
    o["pages"] = s.cached->pages;
    o["shared_pages"] = s.cached->shared_pages;
    o["bytes"] = s.cached->bytes;
  }
  o["last_validation"] = s.last_validation ? json::value(to_json(*s.last_validation)) : json::value(nullptr);
  return o;
}

reply<session_info> session_reply(endpoints::reply_to done, int status) {
  return [done = std::move(done), status](result<session_info> s) mutable {
    done(s ? json_reply(to_json(*s), status) : error_reply(std::move(s.error())));
  };
}

}  // namespace kvern::ipc
