#include "gpu/cpu/thread_team.hpp"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <limits>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "gpu/cpu/stalled_thread.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kvern::gpu::cpu {
namespace {

// Longer than the serial gaps inside a forward pass, shorter than anything a neighbour on the core would notice.
constexpr std::chrono::microseconds spin_time{40};
constexpr int pauses_per_clock = 16;

// A thread whose processor time stands still for so long has lost its processor.
constexpr std::chrono::microseconds stall_time{20};
// How long one that waits sleeps before it looks whether those that hold work still run.
constexpr std::chrono::microseconds look_time{200};

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

/// Spins until `done()`, for `time` at most. Returns whether it is.
template <class F>
bool spin_until(F done, std::chrono::microseconds time) {
  const auto deadline = std::chrono::steady_clock::now() + time;
  do {
    for (int i = 0; i < pauses_per_clock; ++i) {
      if (done()) return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

constexpr timespec look_timeout{0, std::chrono::nanoseconds(look_time).count()};

/// Sleeps while `word` is `value`, until woken or `timeout` has passed; or wakes `value` sleepers. May return early.
void futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* timeout) {
  static_assert(sizeof word == sizeof(std::uint32_t));
  syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

void stay_on(std::thread& thread, const std::vector<int>& cpus) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int cpu : cpus)
    if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(static_cast<std::size_t>(cpu), &mask);
  if (CPU_COUNT(&mask) > 0)
    pthread_setaffinity_np(thread.native_handle(), sizeof mask, &mask);  // a refusal is harmless
}

}  // namespace

/// A task's indices are handed out through queues, one for each thread, which holds neighbouring indices of its group,
/// from `first` on; so as long as nobody helps, a thread goes through memory in order and claims without contention.
/// Its ticket holds the task's number in the high half and the indices left in the low half. A claim is a
/// compare-and-swap of the whole word, so it succeeds only while that very task still has indices; as long as it has,
/// the caller has not returned and the fields that describe the task stand still. A worker that wakes late finds
/// nothing left and touches nothing: the caller never waits for a worker that has not joined.
struct thread_team::impl {
  struct alignas(64) queue {
    std::atomic<std::uint64_t> ticket{0};
    std::atomic<std::int64_t> first{0};
    std::atomic<std::uint32_t> count{0};
  };
  struct alignas(64) member {
    stalled_thread thread;
    std::vector<std::optional<std::chrono::nanoseconds>> times;  // of all, when it looked at those that hold work
  };

  alignas(64) std::atomic<std::uint32_t> task_number{0};
  std::atomic<std::uint32_t> sleepers{0};  // workers that wait for another task
  std::atomic<bool> stop{false};
  std::atomic<void (*)(void*, std::int64_t)> call{nullptr};
  std::atomic<void*> task{nullptr};
  std::atomic<std::uint32_t> groups{0};               // of the current task, at most as many as threads
  alignas(64) std::atomic<std::uint32_t> pending{0};  // indices not finished yet
  std::atomic<bool> caller_sleeps{false};
  std::vector<queue> queues;    // as many as threads
  std::vector<member> members;  // likewise
  std::vector<std::thread> workers;

  explicit impl(std::size_t threads) : queues(threads), members(threads) {
    for (member& m : members) m.times.resize(threads);
  }

  /// Also when not all threads could be had: those that run must be joined.
  ~impl() {
    stop.store(true, std::memory_order_release);
    announce(task_number.load(std::memory_order_relaxed) + 1);
    for (std::thread& t : workers) t.join();
  }

  /// Runs indices of one queue until none is left. Returns how many.
  std::uint32_t empty(queue& q) {
    std::uint32_t finished = 0;
    std::uint64_t seen = q.ticket.load(std::memory_order_acquire);
    while (static_cast<std::uint32_t>(seen) != 0) {
      const auto function = call.load(std::memory_order_relaxed);
      void* const argument = task.load(std::memory_order_relaxed);
      const std::uint32_t index = q.count.load(std::memory_order_relaxed) - static_cast<std::uint32_t>(seen);
      const std::int64_t base = q.first.load(std::memory_order_relaxed);
      if (!q.ticket.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel, std::memory_order_acquire))
        continue;
      function(argument, base + index);
      ++finished;
      seen = q.ticket.load(std::memory_order_acquire);
    }
    return finished;
  }

  /// The first thread of group `g` of `n`.
  std::size_t first_thread(std::size_t g, std::size_t n) const { return (g * queues.size() + n - 1) / n; }

  /// Runs indices of the current task until none is left: those of thread `t`'s own queue first, then of its group.
  void work(std::size_t t) {
    const std::size_t all = queues.size(), n = std::max<std::size_t>(groups.load(std::memory_order_relaxed), 1);
    const std::size_t first = first_thread(t * n / all, n), last = first_thread(t * n / all + 1, n);
    const std::size_t own = last - first;
    members[t].thread.begin();
    std::uint32_t finished = 0;
    for (std::size_t i = 0; i < own; ++i) finished += empty(queues[first + (t - first + i) % own]);
    for (std::size_t i = own; i < all; ++i) finished += empty(queues[(first + i) % all]);
    if (finished != 0 && pending.fetch_sub(finished, std::memory_order_seq_cst) == finished &&
        caller_sleeps.load(std::memory_order_seq_cst))
      futex(pending, FUTEX_WAKE_PRIVATE, 1, nullptr);
    members[t].thread.end(t != 0);  // the caller goes on where it is
  }

  bool done() const { return pending.load(std::memory_order_acquire) == 0; }

  /// When one that holds work has no processor, it is given that of thread `t`, unless `settled()` before that is
  /// known. Returns whether it was.
  template <class F>
  bool give_way(std::size_t t, F settled) {
    const std::size_t all = members.size();
    auto& before = members[t].times;
    bool any = false;
    for (std::size_t i = 0; i < all; ++i) {
      const stalled_thread& other = members[i].thread;
      before[i] = i != t && other.holds_work() ? other.time() : std::nullopt;
      any |= before[i].has_value();
    }
    if (!any || spin_until(settled, stall_time)) return false;
    // From the next one on, so that those that wait do not all turn to the same one.
    for (std::size_t i = (t + 1) % all; i != t; i = (i + 1) % all) {
      stalled_thread& other = members[i].thread;
      if (before[i] && other.holds_work() && other.time() == before[i] && other.bring_here()) return true;
    }
    return false;
  }

  void wait_for_workers() {
    const auto finished = [&] { return done(); };
    if (spin_until(finished, spin_time)) return;
    caller_sleeps.store(true, std::memory_order_seq_cst);
    for (std::uint32_t left; (left = pending.load(std::memory_order_seq_cst)) != 0;) {
      give_way(0, finished);
      futex(pending, FUTEX_WAIT_PRIVATE, left, &look_timeout);
    }
    caller_sleeps.store(false, std::memory_order_relaxed);
  }

  /// Makes `number` the current task's and wakes the workers.
  void announce(std::uint32_t number) {
    task_number.store(number, std::memory_order_seq_cst);
    constexpr auto everybody = static_cast<std::uint32_t>(std::numeric_limits<int>::max());
    if (sleepers.load(std::memory_order_seq_cst) != 0) futex(task_number, FUTEX_WAKE_PRIVATE, everybody, nullptr);
  }

  void sleep_while_task_is(std::uint32_t number, const timespec* timeout) {
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    futex(task_number, FUTEX_WAIT_PRIVATE, number, timeout);
    sleepers.fetch_sub(1, std::memory_order_relaxed);
  }

  /// Waits for a task after number `seen`; returns its number.
  std::uint32_t wait_for_task(std::size_t t, std::uint32_t seen) {
    std::uint32_t number = seen;
    const auto comes = [&] { return (number = task_number.load(std::memory_order_acquire)) != seen; };
    if (spin_until(comes, spin_time)) return number;
    const auto settled = [&] { return comes() || done(); };
    while (!comes()) {
      if (done())  // and nobody holds work before another task
        sleep_while_task_is(seen, nullptr);
      else if (give_way(t, settled))
        leave_processor();  // which the other needs now; this thread may as well queue for the other's
      else
        sleep_while_task_is(seen, &look_timeout);
    }
    return number;
  }

  void worker(std::size_t t) {
    std::uint32_t seen = 0;
    for (;;) {
      seen = wait_for_task(t, seen);
      if (stop.load(std::memory_order_acquire)) return;
      work(t);
    }
  }

  /// Runs [begin, ends.back()), at most 2^32 - 1 indices. Groups that outnumber threads are spread evenly over them.
  void run(std::int64_t begin, std::span<const std::int64_t> ends, void (*function)(void*, std::int64_t),
           void* argument) {
    const std::size_t n = std::min(ends.size(), queues.size());
    call.store(function, std::memory_order_relaxed);
    task.store(argument, std::memory_order_relaxed);
    groups.store(static_cast<std::uint32_t>(n), std::memory_order_relaxed);
    pending.store(static_cast<std::uint32_t>(ends.back() - begin), std::memory_order_relaxed);
    for (std::size_t g = 0; g < n; ++g) {
      const std::int64_t end = ends[(g + 1) * ends.size() / n - 1];
      const std::size_t last = first_thread(g + 1, n);
      for (std::size_t q = first_thread(g, n); q < last; ++q) {
        const std::int64_t count = (end - begin) / static_cast<std::int64_t>(last - q);
        queues[q].first.store(begin, std::memory_order_relaxed);
        queues[q].count.store(static_cast<std::uint32_t>(count), std::memory_order_relaxed);
        begin += count;
      }
    }
    const std::uint32_t number = task_number.load(std::memory_order_relaxed) + 1;
    for (queue& q : queues) {
      const std::uint64_t left = q.count.load(std::memory_order_relaxed);
      q.ticket.store((std::uint64_t{number} << 32) | left, std::memory_order_release);
    }
    announce(number);
    work(0);
    wait_for_workers();
  }
};

thread_team::thread_team(int threads, const std::vector<std::vector<int>>& cpus)
    : impl_(std::make_unique<impl>(static_cast<std::size_t>(std::max(threads, 1)))) {
  const std::size_t all = impl_->queues.size();
  impl_->workers.reserve(all - 1);
  for (std::size_t t = 1; t < all; ++t) {
    impl_->workers.emplace_back([p = impl_.get(), t] { p->worker(t); });
    if (t < cpus.size()) stay_on(impl_->workers.back(), cpus[t]);
  }
}

thread_team::~thread_team() = default;

int thread_team::size() const { return static_cast<int>(impl_->workers.size()) + 1; }

void thread_team::run_erased(std::span<const std::int64_t> ends, void (*call)(void*, std::int64_t), void* task) {
  const std::int64_t count = ends.empty() ? 0 : ends.back();
  if (count <= 0) return;
  if (impl_->workers.empty() || count == 1) {
    for (std::int64_t i = 0; i < count; ++i) call(task, i);
    return;
  }
  constexpr std::int64_t most = std::numeric_limits<std::uint32_t>::max();
  if (count <= most) {
    impl_->run(0, ends, call, task);
    return;
  }
  for (std::int64_t begin = 0; begin < count; begin += most) {
    const std::int64_t end = std::min(count, begin + most);
    impl_->run(begin, {&end, 1}, call, task);
  }
}

}  // namespace kvern::gpu::cpu
