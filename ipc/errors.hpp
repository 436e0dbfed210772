#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "ipc/http.hpp"

namespace kvern::ipc {

/// An error with the field of the request it is about ("" when it is about none).
struct request_error {
  error why;
  std::string param;
};

template <class T>
using parsed = std::expected<T, request_error>;

/// HTTP status of an error code of the service or of this protocol; 500 for codes it does not know.
int status_of(std::string_view code);

/// `{"error":{"message","type","param","code"}}`, as OpenAI writes it; always valid UTF-8.
std::string error_body(const request_error& e);

/// The whole answer: status, body, and Retry-After where the same request may succeed later.
http_reply error_reply(const request_error& e);
http_reply error_reply(error e);

/// `invalid_request` about a field.
std::unexpected<request_error> bad_field(std::string param, std::string message);

}  // namespace kvern::ipc
