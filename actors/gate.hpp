#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

namespace kvern::actors {

/// Counts those inside and lets one wait, with a limit, until nobody is. Safe from any thread; passes may outlive it.
class gate {
  struct shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::int64_t inside = 0;
  };

 public:
  /// One that is inside; leaves when reset or destroyed.
  class pass {
   public:
    pass() = default;
    explicit pass(std::shared_ptr<shared> at) : at_(std::move(at)) {
      const std::lock_guard lock(at_->mutex);
      at_->inside += 1;
    }
    pass(pass&&) noexcept = default;
    pass& operator=(pass&& other) noexcept {
      reset();
      at_ = std::move(other.at_);
      return *this;
    }
    ~pass() { reset(); }

    void reset() noexcept {
      if (!at_) return;
      {
        const std::lock_guard lock(at_->mutex);
        at_->inside -= 1;
        at_->changed.notify_all();
      }
      at_.reset();
    }

   private:
    std::shared_ptr<shared> at_;
  };

  pass enter() const { return pass(shared_); }

  std::int64_t inside() const {
    const std::lock_guard lock(shared_->mutex);
    return shared_->inside;
  }

  /// Whether nobody is inside, at last within `limit`.
  bool wait_empty(std::chrono::milliseconds limit) const {
    std::unique_lock lock(shared_->mutex);
    return shared_->changed.wait_for(lock, limit, [&] { return shared_->inside == 0; });
  }

 private:
  std::shared_ptr<shared> shared_ = std::make_shared<shared>();
};

}  // namespace kvern::actors
