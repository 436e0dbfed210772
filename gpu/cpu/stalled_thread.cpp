#include "gpu/cpu/stalled_thread.hpp"

#include <unistd.h>

#include <ctime>
#include <thread>

namespace kvern::gpu::cpu {
namespace {

/// Sends the calling thread away from `cpu`, then lets it run anywhere of `home`.
void settle(const cpu_set_t& home, int cpu) {
  cpu_set_t others = home;
  CPU_CLR(static_cast<std::size_t>(cpu), &others);
  if (CPU_COUNT(&others) > 0) sched_setaffinity(0, sizeof others, &others);
  sched_setaffinity(0, sizeof home, &home);
}

}  // namespace

void stalled_thread::begin() {
  static thread_local const pid_t self = gettid();
  id_.store(self, std::memory_order_relaxed);
  holds_work_.store(true, std::memory_order_seq_cst);
}

void stalled_thread::end(bool leave) {
  // Whoever says `moving` after this finds no work held and takes it back; otherwise it is seen here.
  holds_work_.store(false, std::memory_order_seq_cst);
  place now = place_.load(std::memory_order_seq_cst);
  for (; now == place::moving; now = place_.load(std::memory_order_seq_cst)) std::this_thread::yield();
  if (now == place::home) return;
  if (leave)
    settle(home_, guest_of_);
  else
    sched_setaffinity(0, sizeof home_, &home_);
  place_.store(place::home, std::memory_order_seq_cst);
}

std::chrono::nanoseconds stalled_thread::time() const {
  // The processor clock of a thread of this process, as pthread_getcpuclockid makes it: that one must not be asked for
  // a thread that may have ended.
  const auto clock = static_cast<clockid_t>((~static_cast<unsigned>(id_.load(std::memory_order_relaxed)) << 3U) | 6U);
  timespec t{};
  if (clock_gettime(clock, &t) != 0) return {};
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

bool stalled_thread::bring_here() {
  place expected = place::home;
  if (!place_.compare_exchange_strong(expected, place::moving, std::memory_order_seq_cst)) return false;
  const pid_t id = id_.load(std::memory_order_relaxed);
  const int here = sched_getcpu();
  bool moved = false;
  if (holds_work_.load(std::memory_order_seq_cst) && here >= 0 && here < CPU_SETSIZE &&
      sched_getaffinity(id, sizeof home_, &home_) == 0 && CPU_ISSET(static_cast<std::size_t>(here), &home_) &&
      CPU_COUNT(&home_) > 1) {
    cpu_set_t guest;
    CPU_ZERO(&guest);
    CPU_SET(static_cast<std::size_t>(here), &guest);
    guest_of_ = here;
    moved = sched_setaffinity(id, sizeof guest, &guest) == 0;
  }
  place_.store(moved ? place::moved : place::home, std::memory_order_seq_cst);
  return moved;
}

void leave_processor() {
  cpu_set_t home;
  const int here = sched_getcpu();
  if (here >= 0 && here < CPU_SETSIZE && sched_getaffinity(0, sizeof home, &home) == 0) settle(home, here);
}

}  // namespace kvern::gpu::cpu
