#include "daemon/service_manager.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace kvern::daemon {
namespace {

constexpr std::chrono::seconds loading_grace{60};

void notify(const std::string& state) { sd_notify(0, state.c_str()); }

}  // namespace

void notify_loading(double share) {
  const auto grace = std::chrono::microseconds(loading_grace).count();
  notify(fmt::format("STATUS=Loading the model, {:.0f}%\nEXTEND_TIMEOUT_USEC={}", 100 * share, grace));
}

void notify_ready(std::string_view status) { notify(fmt::format("READY=1\nSTATUS={}", status)); }

void notify_stopping() { notify("STOPPING=1\nSTATUS=Stopping"); }

void notify_alive() { notify("WATCHDOG=1"); }

std::optional<std::chrono::microseconds> watchdog_interval() {
  std::uint64_t limit = 0;
  if (sd_watchdog_enabled(0, &limit) <= 0) return std::nullopt;
  return std::chrono::microseconds(limit / 2);
}

result<std::vector<int>> handed_over_sockets() {
  const int count = sd_listen_fds(1);
  if (count < 0) return fail("configuration", "LISTEN_FDS is not a number of descriptors");
  std::vector<int> sockets;
  for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + count; ++fd) {
    if (sd_is_socket(fd, AF_UNIX, SOCK_STREAM, 1) <= 0) {
      return fail("configuration", fmt::format("descriptor {} of LISTEN_FDS is not a listening Unix stream socket; "
                                               "use ListenStream= with a path",
                                               fd));
    }
    sockets.push_back(fd);
  }
  return sockets;
}

bool logs_to_journal() {
  const char* stream = std::getenv("JOURNAL_STREAM");
  struct stat what {};
  if (stream == nullptr || fstat(STDERR_FILENO, &what) != 0) return false;
  return stream == fmt::format("{}:{}", what.st_dev, what.st_ino);
}

}  // namespace kvern::daemon
