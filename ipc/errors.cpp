#include "ipc/errors.hpp"

#include <array>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "base/utf8.hpp"

namespace kvern::ipc {
namespace {

namespace json = boost::json;

std::string_view type_of(int status) {
  if (status == 429) return "rate_limit_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

}  // namespace

int status_of(std::string_view code) {
  static constexpr std::array<std::pair<std::string_view, int>, 25> statuses{{{"invalid_request", 400},
                                                                              {"unsupported", 400},
                                                                              {"context_length_exceeded", 400},
                                                                              {"template_error", 400},
                                                                              {"no_chat_template", 400},
                                                                              {"invalid_json", 400},
                                                                              {"bad_http", 400},
                                                                              {"not_found", 404},
                                                                              {"model_not_found", 404},
                                                                              {"session_not_found", 404},
                                                                              {"method_not_allowed", 405},
                                                                              {"request_timeout", 408},
                                                                              {"session_busy", 409},
                                                                              {"body_too_large", 413},
                                                                              {"expectation_failed", 417},
                                                                              {"queue_full", 429},
                                                                              {"too_many_sessions", 429},
                                                                              {"headers_too_large", 431},
                                                                              {"shutting_down", 503},
                                                                              {"worker_failed", 503},
                                                                              {"too_many_connections", 503},
                                                                              {"server_busy", 503},
                                                                              {"out_of_pages", 503},
                                                                              {"invalid_session_file", 400},
                                                                              {"session_file_mismatch", 409}}};
  for (const auto& [known, status] : statuses) {
    if (known == code) return status;
  }
  return 500;
}

std::string error_body(const request_error& e) {
  json::object inner;
  inner["message"] = utf8_repaired(e.why.message);
  inner["type"] = type_of(status_of(e.why.code));
  inner["param"] = e.param.empty() ? json::value(nullptr) : json::value(utf8_repaired(e.param));
  inner["code"] = utf8_repaired(e.why.code);
  return json::serialize(json::object{{"error", std::move(inner)}});
}

http_reply error_reply(const request_error& e) {
  http_reply reply;
  reply.status = status_of(e.why.code);
  reply.body = error_body(e);
  // A full session table does not empty itself within seconds; the others may.
  if (e.why.code == "queue_full" || e.why.code == "too_many_connections" || e.why.code == "server_busy") {
    reply.headers.emplace_back("Retry-After", "1");
  } else if (reply.status == 503) {
    reply.headers.emplace_back("Retry-After", "5");
  }
  return reply;
}

http_reply error_reply(error e) { return error_reply(request_error{std::move(e), {}}); }

std::unexpected<request_error> bad_field(std::string param, std::string message) {
  return std::unexpected(request_error{error{"invalid_request", std::move(message)}, std::move(param)});
}

}  // namespace kvern::ipc
