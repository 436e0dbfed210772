#pragma once

#include <csignal>

#include "ipc/client/client.hpp"

namespace kvern::cli {

/// While it lives, Ctrl-C cancels the call that `daemon` is making; the program goes on. One at a time.
class interrupt_guard {
 public:
  explicit interrupt_guard(client::client& daemon);
  ~interrupt_guard();
  interrupt_guard(const interrupt_guard&) = delete;
  interrupt_guard& operator=(const interrupt_guard&) = delete;

 private:
  struct sigaction before_ {};
};

/// While it lives, Ctrl-C ends no program: it makes a blocking read fail with EINTR, and is remembered. May be nested.
class interrupt_watch {
 public:
  interrupt_watch();
  ~interrupt_watch();
  interrupt_watch(const interrupt_watch&) = delete;
  interrupt_watch& operator=(const interrupt_watch&) = delete;

  /// Whether Ctrl-C came since the last one was made.
  static bool interrupted();

 private:
  struct sigaction before_ {};
};

}  // namespace kvern::cli
