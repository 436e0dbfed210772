#include "daemon/service_manager.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/support/golden.hpp"

namespace kvern::daemon {
namespace {

using ::testing::HasSubstr;

/// A datagram socket in NOTIFY_SOCKET, as the service manager has it.
class notify_socket {
 public:
  notify_socket() : path_((folder_.path() / "notify").string()), fd_(socket(AF_UNIX, SOCK_DGRAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    setenv("NOTIFY_SOCKET", path_.c_str(), 1);
  }
  ~notify_socket() {
    unsetenv("NOTIFY_SOCKET");
    close(fd_);
  }
  notify_socket(const notify_socket&) = delete;
  notify_socket& operator=(const notify_socket&) = delete;

  std::string next() const {
    std::array<char, 1024> buffer{};
    const auto size = recv(fd_, buffer.data(), buffer.size(), 0);
    return {buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
  }

 private:
  test::scratch_folder folder_;
  std::string path_;
  int fd_;
};

TEST(service_manager, says_what_systemd_expects) {
  const notify_socket systemd;
  notify_loading(0.25);
  const auto loading = systemd.next();
  EXPECT_THAT(loading, HasSubstr("25%"));
  EXPECT_THAT(loading, HasSubstr("EXTEND_TIMEOUT_USEC="));
  notify_ready("serving");
  EXPECT_EQ(systemd.next(), "READY=1\nSTATUS=serving");
  notify_alive();
  EXPECT_EQ(systemd.next(), "WATCHDOG=1");
  notify_stopping();
  EXPECT_THAT(systemd.next(), HasSubstr("STOPPING=1"));
}

TEST(service_manager, the_watchdog_is_fed_twice_as_often_as_asked) {
  unsetenv("WATCHDOG_USEC");
  EXPECT_FALSE(watchdog_interval());
  setenv("WATCHDOG_USEC", "2000000", 1);
  setenv("WATCHDOG_PID", std::to_string(getpid()).c_str(), 1);
  EXPECT_EQ(watchdog_interval(), std::chrono::seconds(1));
  unsetenv("WATCHDOG_USEC");
  unsetenv("WATCHDOG_PID");
}

TEST(service_manager, sockets_handed_to_another_process_are_not_ours) {
  setenv("LISTEN_FDS", "1", 1);
  setenv("LISTEN_PID", "1", 1);
  const auto got = handed_over_sockets();
  ASSERT_TRUE(got);
  EXPECT_TRUE(got->empty());
}

}  // namespace
}  // namespace kvern::daemon
