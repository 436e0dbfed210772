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

volatile std::sig_atomic_t noticed = 0;

void notice_interrupt(int) { noticed = 1; }

/// The action before.
struct sigaction handle_sigint(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  struct sigaction before {};
  sigaction(SIGINT, &action, &before);
  return before;
}

}  // namespace

interrupt_guard::interrupt_guard(client::client& daemon) {
  interrupted = &daemon;
  before_ = handle_sigint(on_interrupt);
}

interrupt_guard::~interrupt_guard() {
  sigaction(SIGINT, &before_, nullptr);
  interrupted = nullptr;
}

interrupt_watch::interrupt_watch() {
  noticed = 0;
  before_ = handle_sigint(notice_interrupt);
}

interrupt_watch::~interrupt_watch() { sigaction(SIGINT, &before_, nullptr); }

bool interrupt_watch::interrupted() { return noticed != 0; }

}  // namespace kvern::cli
