#include "daemon/stop_signal.hpp"

#include <pthread.h>
#include <unistd.h>

#include <csignal>

namespace kvern::daemon {
namespace {

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  return set;
}

}  // namespace

stop_signal::stop_signal() {
  const auto set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  watcher_ = std::thread([this] { watch(); });
}

stop_signal::~stop_signal() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  pthread_kill(watcher_.native_handle(), SIGHUP);
  watcher_.join();
}

void stop_signal::watch() {
  const auto set = stop_signals();
  for (;;) {
    int signal = 0;
    if (sigwait(&set, &signal) != 0) continue;
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    if (!in_order_) _exit(0);
    stopped_ = true;
    changed_.notify_all();
  }
}

void stop_signal::from_now_on_stop_in_order() {
  const std::lock_guard lock(mutex_);
  in_order_ = true;
}

void stop_signal::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stopped_; });
}

bool stop_signal::wait_for(std::chrono::microseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return stopped_; });
}

}  // namespace kvern::daemon
