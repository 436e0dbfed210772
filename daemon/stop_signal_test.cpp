#include "daemon/stop_signal.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace kvern::daemon {
namespace {

/// Runs `child` in a process of its own; its exit status.
template <class F>
int status_of(F child) {
  const pid_t pid = fork();
  if (pid == 0) _exit(child());
  int status = -1;
  waitpid(pid, &status, 0);
  return status;
}

TEST(stop_signal, the_first_signal_ends_the_wait_and_more_change_nothing) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    const int status = status_of([signal] {
      stop_signal stop;
      stop.from_now_on_stop_in_order();
      if (stop.wait_for(std::chrono::microseconds(1))) return 1;
      kill(getpid(), signal);
      stop.wait();
      kill(getpid(), signal);
      return stop.wait_for(std::chrono::seconds(10)) ? 7 : 2;
    });
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 7);
  }
}

TEST(stop_signal, before_anything_is_served_a_signal_ends_the_process_cleanly) {
  const int status = status_of([] {
    stop_signal stop;
    kill(getpid(), SIGTERM);
    stop.wait();
    return 1;
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(stop_signal, goes_away_without_a_signal) {
  EXPECT_EQ(WEXITSTATUS(status_of([] {
              { const stop_signal stop; }
              return 3;
            })),
            3);
}

}  // namespace
}  // namespace kvern::daemon
