#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "actors/service.hpp"
#include "ipc/completion_request.hpp"
#include "ipc/http.hpp"

namespace kvern::ipc {

/// The kind of completion that a request asks for; nullopt when it is for another endpoint (or a wrong method).
std::optional<completion_kind> completion_of(const http_request& request);

/// Whether the request brings or takes a session's lines: far more bytes than any other.
enum class transfer_kind { none, in, out };
transfer_kind transfer_of(std::string_view method, std::string_view target);

/// Answers all endpoints but the completions. Knows no socket.
class endpoints {
 public:
  using reply_to = std::move_only_function<void(http_reply)>;

  /// `stall_after`: the worker's heartbeat may be so old while it has work.
  endpoints(std::shared_ptr<service> s, std::chrono::milliseconds stall_after);

  /// Calls `done` once, at once or later on a thread of the service's choice. `connections` is for /metrics.
  void handle(const peer& who, http_request request, std::int64_t connections, reply_to done) const;

 private:
  http_reply health() const;
  http_reply models() const;
  http_reply model(std::string_view id) const;
  void tokenize(std::string_view body, reply_to done) const;
  void detokenize(std::string_view body, reply_to done) const;
  void render(std::string_view body, reply_to done) const;
  void create_session(const peer& who, std::string_view body, reply_to done) const;
  void list_sessions(const peer& who, reply_to done) const;
  void session(const peer& who, const http_request& request, std::string_view rest, reply_to done) const;
  void command(const peer& who, const http_request& request, std::string id, std::string_view verb,
               reply_to done) const;
  void fork_session(const peer& who, std::string id, std::string_view body, reply_to done) const;
  void rewind_session(const peer& who, std::string id, std::string_view body, reply_to done) const;
  void export_session(const peer& who, std::string id, reply_to done) const;
  void explain(const peer& who, std::string id, std::string_view body, reply_to done) const;

  std::shared_ptr<service> service_;
  std::chrono::duration<double> stall_after_;
};

}  // namespace kvern::ipc
