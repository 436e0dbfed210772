#include "daemon/cli/interrupt.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>

namespace kvern::cli {
namespace {

std::atomic<client::client*> interrupted{nullptr};
static_assert(std::atomic<client::client*>::is_always_lock_free);

void on_interrupt(int) {
  const int saved = errno;
  if (auto* daemon = interrupted.load()) daemon->cancel();
  errno = saved;
}

void handle_sigint(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
}

}  // namespace

interrupt_guard::interrupt_guard(client::client& daemon) {
  interrupted = &daemon;
  handle_sigint(on_interrupt);
}

interrupt_guard::~interrupt_guard() {
  handle_sigint(SIG_DFL);
  interrupted = nullptr;
}

}  // namespace kvern::cli
