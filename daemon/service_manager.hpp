#pragma once

#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.hpp"

/// What kvernd and systemd say to each other. All of it does nothing when no service manager listens.
namespace kvern::daemon {

/// Still starting, at `share` (0 to 1) of the work: shown by `systemctl status`, and the start limit is put off.
void notify_loading(double share);
/// Serving.
void notify_ready(std::string_view status);
void notify_stopping();
/// The daemon lives; due within each watchdog_interval().
void notify_alive();

/// How often notify_alive is due (half of WatchdogSec); nullopt: no watchdog was asked for.
std::optional<std::chrono::microseconds> watchdog_interval();

/// The listening sockets handed over by LISTEN_FDS, all of them Unix stream sockets; empty when there are none.
/// Errors: `configuration`.
result<std::vector<int>> handed_over_sockets();

/// Whether standard error goes to the journal, which has its own times and levels.
bool logs_to_journal();

}  // namespace kvern::daemon
