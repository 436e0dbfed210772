#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>

#include "gpu/engine/engine.hpp"

namespace kvern::actors {

/// What the actors show to the outside without being asked: the worker's pulse and counters, counts of the front desk.
/// Safe to use from any thread; nobody waits for the worker here.
class status_board {
 public:
  using clock = std::chrono::steady_clock;

  status_board() : started_(clock::now()), beat_(clock::now().time_since_epoch().count()) {}

  /// The worker shows life.
  void beat() { beat_.store(clock::now().time_since_epoch().count(), std::memory_order_relaxed); }
  double heartbeat_age_seconds() const;
  double uptime_seconds() const { return std::chrono::duration<double>(clock::now() - started_).count(); }

  void publish(const gpu::engine_stats& stats);
  gpu::engine_stats engine() const;

  /// The worker is gone and why; the first reason stays.
  void worker_failed(std::string what);
  void worker_failed(const std::exception_ptr& thrown);
  bool worker_alive() const { return alive_.load(std::memory_order_acquire); }
  std::string failure() const;

  std::atomic<std::int64_t> sessions = 0;
  std::atomic<std::int64_t> requests = 0;
  /// Shared: event streams count their refusals and may outlive the board's owner.
  const std::shared_ptr<std::atomic<std::int64_t>> refused = std::make_shared<std::atomic<std::int64_t>>(0);
  std::atomic<std::uint64_t> next_turn = 1;  ///< ids that are unique for the worker

 private:
  const clock::time_point started_;
  std::atomic<clock::rep> beat_;
  std::atomic<bool> alive_ = true;
  mutable std::mutex mutex_;
  gpu::engine_stats engine_;
  std::string failure_;
};

}  // namespace kvern::actors
