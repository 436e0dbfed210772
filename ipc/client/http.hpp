#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "ipc/client/client.hpp"

namespace kvern::client {

/// One blocking HTTP exchange over a Unix socket. One exchange at a time; cancel() from anywhere.
class http {
 public:
  explicit http(std::string socket_path) : path_(std::move(socket_path)) {}

  /// Sends and receives. With `on_body`, a response of status 200 is handed over piece by piece as it arrives, and
  /// `reply::body` stays empty.
  result<reply> exchange(std::string_view method, std::string_view target, std::string_view body,
                         const std::function<void(std::string_view)>& on_body = {});

  /// Async-signal-safe: shuts the socket down under the exchange.
  void cancel() noexcept;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::atomic<int> descriptor_{-1};
  std::atomic<bool> cancelled_{false};
};

}  // namespace kvern::client
