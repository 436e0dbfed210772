#include "daemon/cli/interrupt.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "tests/support/golden.hpp"

namespace kvern::cli {
namespace {

// A daemon that accepts, reads a request, and never answers: only the signal can end the call.
TEST(interrupt_guard, ctrl_c_ends_the_call_and_not_the_program) {
  const test::scratch_folder folder;
  const auto path = (folder.path() / "s").string();
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(listener, 1), 0);

  client::client daemon(path);
  const interrupt_guard guard(daemon);
  std::thread silent([&] {
    const int peer = accept(listener, nullptr, nullptr);
    char byte = 0;
    EXPECT_EQ(read(peer, &byte, 1), 1);
    kill(getpid(), SIGINT);
    while (read(peer, &byte, 1) > 0) {
    }
    close(peer);
  });
  const auto got = daemon.request("GET", "/health");
  silent.join();
  close(listener);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, "cancelled");
}

TEST(interrupt_watch, ctrl_c_interrupts_a_read_and_is_remembered) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const interrupt_watch watch;
  EXPECT_FALSE(interrupt_watch::interrupted());
  const auto reader = pthread_self();
  std::atomic<bool> done{false};
  std::thread ctrl_c([&] {
    while (!done) {
      pthread_kill(reader, SIGINT);
      std::this_thread::yield();
    }
  });
  char byte = 0;
  EXPECT_EQ(read(ends[0], &byte, 1), -1);
  EXPECT_EQ(errno, EINTR);
  done = true;
  ctrl_c.join();
  EXPECT_TRUE(interrupt_watch::interrupted());
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace kvern::cli
