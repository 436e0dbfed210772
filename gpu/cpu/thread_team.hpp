#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

namespace kvern::gpu::cpu {

/// N compute threads that run one task together, the caller being one of them. Workers spin some microseconds for the
/// next task, then sleep on a futex. While threads of the team wait for one whose processor another process has, it may
/// run on one of theirs. So where a thread may run, the caller as well, is changed while it holds work, and is then
/// what it was before. One caller at a time.
class thread_team {
 public:
  /// `threads` >= 1. `cpus`: of each thread, the processors it stays on, if the system lets it; the caller's, thread 0,
  /// is not read, and empty lists are any. Throws std::system_error when the system refuses a thread; then none is
  /// left running.
  explicit thread_team(int threads, const std::vector<std::vector<int>>& cpus = {});
  ~thread_team();
  thread_team(const thread_team&) = delete;
  thread_team& operator=(const thread_team&) = delete;

  int size() const;

  /// Calls `task(index)` for every index in [0, count), each exactly once, on any thread; returns when all are done.
  /// What an index computes must not depend on the thread or the order. `task` must not throw nor run this team again.
  template <class F>
  void run(std::int64_t count, F&& task) {
    run_groups({&count, 1}, task);
  }

  /// The same for indices in groups: group g is [ends[g - 1], ends[g]), `ends` ascending from 0. Thread t (the caller
  /// is 0) begins with group t * groups / size() and helps other groups when that one has no index left; groups that
  /// outnumber threads share them.
  template <class F>
  void run_groups(std::span<const std::int64_t> ends, F&& task) {
    run_erased(
        ends, [](void* f, std::int64_t i) { (*static_cast<std::remove_reference_t<F>*>(f))(i); },
        const_cast<void*>(static_cast<const void*>(&task)));
  }

 private:
  void run_erased(std::span<const std::int64_t> ends, void (*call)(void*, std::int64_t), void* task);

  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace kvern::gpu::cpu
