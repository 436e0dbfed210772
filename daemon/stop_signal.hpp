#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace kvern::daemon {

/// Turns SIGTERM, SIGINT and SIGHUP into an orderly stop. Construct it before any other thread, so that all of them
/// inherit the blocked signals. One in a process.
///
/// Until from_now_on_stop_in_order() a signal ends the process at once, with exit code 0: nothing is served that could
/// be lost. Afterwards the first signal ends wait(); further ones change nothing.
class stop_signal {
 public:
  stop_signal();
  ~stop_signal();
  stop_signal(const stop_signal&) = delete;
  stop_signal& operator=(const stop_signal&) = delete;

  void from_now_on_stop_in_order();
  void wait();
  /// Whether the signal came within `limit`.
  bool wait_for(std::chrono::microseconds limit);

 private:
  void watch();

  std::mutex mutex_;
  std::condition_variable changed_;
  bool in_order_ = false;
  bool stopped_ = false;
  bool ended_ = false;
  std::thread watcher_;
};

}  // namespace kvern::daemon
