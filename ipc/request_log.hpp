#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "ipc/completion_format.hpp"
#include "ipc/completion_request.hpp"

/// What the log says of requests, through spdlog's default logger: one line for each generation at level info, other
/// requests at debug; errors that no client caused at level warn. Nothing a client wrote gets into it but the path, its
/// unprintable characters escaped. Safe from any thread.
namespace kvern::ipc {

/// A request for generations when it is over, in whatever way.
struct finished_request {
  completion_kind kind = completion_kind::chat;
  uid_t user = 0;
  bool session = false;
  token_usage tokens;
  std::string finish;            ///< its finish reasons, "client_left", or empty with a failure
  std::optional<error> failure;  ///< why it was refused or failed
  double milliseconds = 0;       ///< from the end of its body to the end of its answer
};

/// Its line: `POST /v1/chat/completions uid=1000 session=no prompt=12 cached=8 completion=40 finish=stop ms=812.5`, or
/// `error=CODE` in the place of `finish`; of errors that no client caused the message too.
std::string line_of(const finished_request& r);

void write_log(const finished_request& r);

/// Any other request; `target` as sent.
void write_log(std::string_view method, std::string_view target, uid_t user, int status, double milliseconds);

}  // namespace kvern::ipc
