#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/token.hpp"

/// The C++ client library: what a program links to talk to kvernd. Depends on no part of the daemon.
namespace kvern::client {

/// Where the daemon listens: $KVERN_SOCKET, else $XDG_RUNTIME_DIR/kvern.sock if it exists, else /run/kvern/kvern.sock.
std::string default_socket();

struct message {
  std::string role;
  std::string content;
};

/// How to generate; what is absent is the daemon's default.
struct options {
  std::string session;  ///< id from create_session; empty: none
  std::optional<std::int64_t> max_tokens;
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<std::int64_t> top_k;
  std::optional<double> min_p;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> stop;
};

struct answer {
  std::string text;
  std::string finish_reason;  ///< "stop" or "length"
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::string cache_reason;
  double prompt_tokens_per_second = 0;
  double generate_tokens_per_second = 0;
  std::string raw;  ///< the last JSON object with `kvern` that the daemon sent
};

/// Called while an answer is made, on the calling thread. Both may be empty.
struct observer {
  std::function<void(std::int64_t processed, std::int64_t total)> on_progress;
  std::function<void(std::string_view text)> on_text;
};

struct reply {
  int status = 0;
  std::string body;
};

/// Talks to one daemon, a connection for each call. Calls block; one at a time; cancel() may come from any thread or a
/// signal handler. Errors: `unreachable` (nobody listens), `protocol` (not what a daemon says), `cancelled`,
/// `invalid_utf8` (of a text to send), or the daemon's own code and message.
class client {
 public:
  explicit client(std::string socket_path = default_socket());
  ~client();
  client(const client&) = delete;
  client& operator=(const client&) = delete;

  /// Streams the answer to a conversation.
  result<answer> chat(std::span<const message> messages, const options& how, const observer& watch = {});
  /// Streams the continuation of a text.
  result<answer> complete(std::string_view prompt, const options& how, const observer& watch = {});

  result<std::vector<token_id>> tokenize(std::string_view text, bool add_special = true, bool parse_special = false);
  result<std::string> detokenize(std::span<const token_id> tokens);

  /// The new session's id.
  result<std::string> create_session();
  result<void> delete_session(std::string_view id);

  /// Any endpoint, for what has no function here; `body` is sent as JSON when it is not empty.
  result<reply> request(std::string_view method, std::string_view target, std::string_view body = {});

  /// Ends the call in progress with `cancelled`; the daemon stops generating. Async-signal-safe.
  void cancel() noexcept;

  const std::string& socket_path() const;

 private:
  class impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace kvern::client
