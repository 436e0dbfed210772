#pragma once

#include <sched.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <optional>

namespace kvern::gpu::cpu {

/// One thread of a team, seen by those who wait for it. While another process has its processor, a thread that holds
/// work holds up everybody for as long as the system's time slice, milliseconds. One with nothing else to do can have
/// it moved to its own processor, which makes it run at once. Where a thread may run is changed until its next `end`.
///
/// `begin` and `end` are the thread's, the rest is for any other thread.
class stalled_thread {
 public:
  /// The calling thread holds work from now on.
  void begin();
  /// It holds none any more. If it was moved, it may run where it might before; with `leave` it makes way first for who
  /// moved it.
  void end(bool leave);

  bool holds_work() const { return holds_work_.load(std::memory_order_relaxed); }
  /// Processor time it has had: stands still while it does not run. None when the system does not say, or says it too
  /// coarsely to tell within microseconds.
  std::optional<std::chrono::nanoseconds> time() const;
  /// Moves it to the caller's processor, which the caller should leave to it. False when it holds no work, is being
  /// moved already, or may not run there or nowhere else.
  bool bring_here();

 private:
  enum class place : int { home, moving, moved };

  std::atomic<pid_t> id_{0};
  std::atomic<bool> holds_work_{false};
  std::atomic<place> place_{place::home};
  cpu_set_t home_{};  // where it might run before; of who makes it `moving`, then of the thread
  int guest_of_ = 0;  // the processor it was moved to
};

/// Makes the calling thread continue on another processor, if it may run on any.
void leave_processor();

}  // namespace kvern::gpu::cpu
