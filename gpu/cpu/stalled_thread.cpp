#include "gpu/cpu/stalled_thread.hpp"

#include <unistd.h>

#include <cstring>
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

/// Whether thread `id` may run on `cpu` and elsewhere.
bool may_leave_for(pid_t id, int cpu) {
  cpu_set_t now;
  return cpu >= 0 && cpu < CPU_SETSIZE && sched_getaffinity(id, sizeof now, &now) == 0 &&
         CPU_ISSET(static_cast<std::size_t>(cpu), &now) && CPU_COUNT(&now) > 1;
}

/// What to let thread `id` run on later so that it may as it may now. What nobody but the system's cpuset narrows is
/// everything, for the cpuset may have grown by then.
cpu_set_t home_of(pid_t id) {
  cpu_set_t now, everything, most;
  CPU_ZERO(&now);
  sched_getaffinity(id, sizeof now, &now);
  std::memset(&everything, 0xff, sizeof everything);
  if (sched_setaffinity(id, sizeof everything, &everything) != 0) return now;
  if (sched_getaffinity(id, sizeof most, &most) == 0 && CPU_EQUAL(&now, &most)) return everything;
  sched_setaffinity(id, sizeof now, &now);
  return now;
}

std::optional<std::chrono::nanoseconds> value_of(clockid_t clock) {
  timespec t{};
  if (clock_gettime(clock, &t) != 0) return {};
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

/// Whether the processor clocks of threads go on in steps that are small beside a look at a thread. Tried out: Linux
/// calls them all exact, and a sandbox may count in ticks of milliseconds.
bool fine_clock() {
  constexpr std::chrono::microseconds most{5};
  constexpr int reads = 200;
  auto last = value_of(CLOCK_THREAD_CPUTIME_ID);
  for (int n = 0; n < reads && last; ++n) {
    const auto now = value_of(CLOCK_THREAD_CPUTIME_ID);
    if (now && *now != *last && *now - *last <= most) return true;
    last = now;
  }
  return false;
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

std::optional<std::chrono::nanoseconds> stalled_thread::time() const {
  static const bool fine = fine_clock();
  const pid_t id = id_.load(std::memory_order_relaxed);
  if (!fine || id == 0) return {};
  // The processor clock of a thread of this process, as pthread_getcpuclockid makes it: that one must not be asked for
  // a thread that may have ended.
  return value_of(static_cast<clockid_t>((~static_cast<unsigned>(id) << 3U) | 6U));
}

bool stalled_thread::bring_here() {
  place expected = place::home;
  if (!place_.compare_exchange_strong(expected, place::moving, std::memory_order_seq_cst)) return false;
  const pid_t id = id_.load(std::memory_order_relaxed);
  const int here = sched_getcpu();
  bool moved = false;
  if (holds_work_.load(std::memory_order_seq_cst) && may_leave_for(id, here)) {
    home_ = home_of(id);
    cpu_set_t guest;
    CPU_ZERO(&guest);
    CPU_SET(static_cast<std::size_t>(here), &guest);
    guest_of_ = here;
    moved = sched_setaffinity(id, sizeof guest, &guest) == 0;
    if (!moved) sched_setaffinity(id, sizeof home_, &home_);
  }
  place_.store(moved ? place::moved : place::home, std::memory_order_seq_cst);
  return moved;
}

void leave_processor() {
  const int here = sched_getcpu();
  if (may_leave_for(0, here)) settle(home_of(0), here);
}

}  // namespace kvern::gpu::cpu
