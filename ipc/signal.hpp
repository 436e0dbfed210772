#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

namespace kvern::ipc {

/// Wakes one coroutine of an io thread from any thread. The coroutine looks at its state, waits, and looks again:
/// notifications may come together, and without a cause.
class signal : public std::enable_shared_from_this<signal> {
 public:
  /// `on_wake` runs on the executor before the coroutine goes on.
  signal(boost::asio::any_io_executor executor, std::function<void()> on_wake);

  /// From any thread. Does nothing once closed.
  void notify();

  /// Returns after the next notify. On the executor's thread only, by one coroutine at a time; what was notified of
  /// before the call may have been taken before.
  boost::asio::awaitable<void> wait();

  /// On the executor's thread, or when none runs it: after it the executor is not used any more, and this may be
  /// destroyed on any thread.
  void close();

 private:
  void wake();

  std::mutex mutex_;
  boost::asio::any_io_executor executor_;
  bool posted_ = false;
  bool closed_ = false;
  std::function<void()> on_wake_;                   // io thread
  std::optional<boost::asio::steady_timer> timer_;  // io thread
};

}  // namespace kvern::ipc
