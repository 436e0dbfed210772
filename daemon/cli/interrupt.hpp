#pragma once

#include "ipc/client/client.hpp"

namespace kvern::cli {

/// While it lives, Ctrl-C cancels the call that `daemon` is making; the program goes on. One at a time.
class interrupt_guard {
 public:
  explicit interrupt_guard(client::client& daemon);
  ~interrupt_guard();
  interrupt_guard(const interrupt_guard&) = delete;
  interrupt_guard& operator=(const interrupt_guard&) = delete;
};

}  // namespace kvern::cli
