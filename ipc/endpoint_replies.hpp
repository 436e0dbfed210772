#pragma once

#include <boost/json/object.hpp>
#include <string_view>
#include <utility>

#include "actors/service.hpp"
#include "ipc/endpoints.hpp"
#include "ipc/json_reader.hpp"

/// What the endpoints' answers have in common.
namespace kvern::ipc {

http_reply json_reply(const boost::json::object& o, int status = 200);
http_reply method_not_allowed(std::string_view allow);
http_reply not_found();

/// Whether the request is a GET (or HEAD); answers it with 405 if not.
bool is_get(const http_request& request, endpoints::reply_to& done);
bool is_post(const http_request& request, endpoints::reply_to& done);

boost::json::object to_json(const session_info& s);

/// Answers with a session, or why there is none.
reply<session_info> session_reply(endpoints::reply_to done, int status = 200);

/// Reads the body's fields with `read`; yields false and answers when something is wrong with them.
template <class Read>
bool with_fields(std::string_view text, endpoints::reply_to& done, Read read) {
  const auto document = parse_json_object(text);
  if (!document) {
    done(error_reply(document.error()));
    return false;
  }
  fields body(document->root().get_object());
  read(body);
  if (body.failure()) {
    done(error_reply(*body.failure()));
    return false;
  }
  return true;
}

}  // namespace kvern::ipc
