#include "actors/status_board.hpp"

#include <utility>

namespace kvern::actors {

double status_board::heartbeat_age_seconds() const {
  const clock::time_point last{clock::duration(beat_.load(std::memory_order_relaxed))};
  const auto age = std::chrono::duration<double>(clock::now() - last).count();
  return age > 0 ? age : 0;
}

void status_board::publish(const gpu::engine_stats& stats) {
  const std::lock_guard lock(mutex_);
  engine_ = stats;
}

gpu::engine_stats status_board::engine() const {
  const std::lock_guard lock(mutex_);
  return engine_;
}

void status_board::worker_failed(std::string what) {
  const std::lock_guard lock(mutex_);
  if (alive_.exchange(false, std::memory_order_acq_rel)) failure_ = std::move(what);
}

void status_board::worker_failed(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& e) {
    worker_failed(std::string(e.what()));
  } catch (...) {
    worker_failed(std::string("unknown exception"));
  }
}

std::string status_board::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace kvern::actors
