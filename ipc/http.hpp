#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvern::ipc {

/// A request as far as the protocol looks at it.
struct http_request {
  std::string method;
  std::string target;  ///< path and query, as sent
  std::string body;
};

/// A whole answer. `headers` are further ones; Content-Length and Connection are the connection's.
struct http_reply {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
};

/// Path of a request target, without its query. Percent signs stay as they are.
std::string_view path_of(std::string_view target);

/// Percent-decoded text; what is no valid escape stays as it is.
std::string percent_decoded(std::string_view text);

/// "Not Found" and the like.
std::string_view reason_phrase(int status);

/// Status line and headers of a whole answer, the empty line included.
std::string reply_head(const http_reply& reply, bool keep_alive);

/// Status line and headers of an event stream: chunked, or ended by closing for HTTP/1.0 peers.
std::string stream_head(bool chunked, bool keep_alive);

/// `data` as one chunk of a chunked body; empty data yields nothing.
std::string chunk(std::string_view data);

/// The end of a chunked body.
inline constexpr std::string_view last_chunk = "0\r\n\r\n";

}  // namespace kvern::ipc
