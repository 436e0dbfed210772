#include "gpu/cpu/thread_team.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kvern::gpu::cpu {
namespace {

// Longer than the serial gaps inside a forward pass, shorter than anything a neighbour on the core would notice.
constexpr std::chrono::microseconds spin_time{40};
constexpr int pauses_per_clock = 16;

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

/// Waits until `word` differs from `old`: spinning first, then asleep. Returns the new value.
std::uint32_t wait_for_change(const std::atomic<std::uint32_t>& word, std::uint32_t old) {
  const auto deadline = std::chrono::steady_clock::now() + spin_time;
  do {
    for (int i = 0; i < pauses_per_clock; ++i) {
      const std::uint32_t now = word.load(std::memory_order_acquire);
      if (now != old) return now;
      pause();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  word.wait(old, std::memory_order_acquire);
  return word.load(std::memory_order_acquire);
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

/// A task's indices are handed out through `ticket`: its number in the high half, indices left in the low half. A
/// claim is a compare-and-swap of the whole word, so it succeeds only while that very task still has indices; as long
/// as it has, the caller has not returned and the fields that describe the task stand still. A worker that wakes late
/// finds nothing left and touches nothing: the caller never waits for a worker that has not joined.
struct thread_team::impl {
  alignas(64) std::atomic<std::uint64_t> ticket{0};
  alignas(64) std::atomic<std::uint32_t> task_number{0};
  std::atomic<bool> stop{false};
  std::atomic<void (*)(void*, std::int64_t)> call{nullptr};
  std::atomic<void*> task{nullptr};
  std::atomic<std::int64_t> first{0};
  std::atomic<std::uint32_t> count{0};
  alignas(64) std::atomic<std::uint32_t> pending{0};  // indices not finished yet
  std::vector<std::thread> workers;

  /// Also when not all threads could be had: those that run must be joined.
  ~impl() {
    stop.store(true, std::memory_order_release);
    task_number.fetch_add(1, std::memory_order_release);
    task_number.notify_all();
    for (std::thread& t : workers) t.join();
  }

  /// Runs indices of the current task until none is left.
  void work() {
    std::uint32_t finished = 0;
    std::uint64_t seen = ticket.load(std::memory_order_acquire);
    while (static_cast<std::uint32_t>(seen) != 0) {
      const auto function = call.load(std::memory_order_relaxed);
      void* const argument = task.load(std::memory_order_relaxed);
      const std::uint32_t index = count.load(std::memory_order_relaxed) - static_cast<std::uint32_t>(seen);
      const std::int64_t base = first.load(std::memory_order_relaxed);
      if (!ticket.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
      function(argument, base + index);
      ++finished;
      seen = ticket.load(std::memory_order_acquire);
    }
    if (finished != 0 && pending.fetch_sub(finished, std::memory_order_acq_rel) == finished) pending.notify_one();
  }

  void worker() {
    std::uint32_t seen = 0;
    for (;;) {
      seen = wait_for_change(task_number, seen);
      if (stop.load(std::memory_order_acquire)) return;
      work();
    }
  }

  void run(std::int64_t begin, std::uint32_t n, void (*function)(void*, std::int64_t), void* argument) {
    call.store(function, std::memory_order_relaxed);
    task.store(argument, std::memory_order_relaxed);
    first.store(begin, std::memory_order_relaxed);
    count.store(n, std::memory_order_relaxed);
    pending.store(n, std::memory_order_relaxed);
    const std::uint32_t number = task_number.load(std::memory_order_relaxed) + 1;
    ticket.store((std::uint64_t{number} << 32) | n, std::memory_order_release);
    task_number.store(number, std::memory_order_release);
    task_number.notify_all();
    work();
    for (std::uint32_t left = pending.load(std::memory_order_acquire); left != 0;)
      left = wait_for_change(pending, left);
  }
};

thread_team::thread_team(int threads, const std::vector<std::vector<int>>& cpus) : impl_(std::make_unique<impl>()) {
  const int extra = std::max(threads, 1) - 1;
  impl_->workers.reserve(static_cast<std::size_t>(extra));
  for (int i = 0; i < extra; ++i) {
    impl_->workers.emplace_back([p = impl_.get()] { p->worker(); });
    const auto number = static_cast<std::size_t>(i) + 1;
    if (number < cpus.size()) stay_on(impl_->workers.back(), cpus[number]);
  }
}

thread_team::~thread_team() = default;

int thread_team::size() const { return static_cast<int>(impl_->workers.size()) + 1; }

void thread_team::run_erased(std::int64_t count, void (*call)(void*, std::int64_t), void* task) {
  if (count <= 0) return;
  if (impl_->workers.empty() || count == 1) {
    for (std::int64_t i = 0; i < count; ++i) call(task, i);
    return;
  }
  constexpr std::int64_t most = std::numeric_limits<std::uint32_t>::max();
  for (std::int64_t begin = 0; begin < count; begin += most) {
    impl_->run(begin, static_cast<std::uint32_t>(std::min(most, count - begin)), call, task);
  }
}

}  // namespace kvern::gpu::cpu
