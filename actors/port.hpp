#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "actors/errors.hpp"
#include "actors/service.hpp"

namespace kvern::actors {

/// A one-shot way back to a caller of the service. Dropped unused, it answers `shutting_down`, so that a caller gets
/// its one answer even from an actor that has ended. Contains what the caller's function throws.
template <class T>
class port {
 public:
  explicit port(reply<T> done) : done_(std::move(done)) {}
  port(port&& other) noexcept : done_(std::exchange(other.done_, nullptr)) {}
  port& operator=(port&&) = delete;
  ~port() {
    if (done_) answer(std::unexpected(shutting_down()));
  }

  /// The first answer counts.
  void answer(result<T> value) noexcept {
    auto done = std::exchange(done_, nullptr);
    if (!done) return;
    try {
      done(std::move(value));
    } catch (...) {
      // The caller's function has nobody to tell but itself.
    }
  }

 private:
  reply<T> done_;
};

/// Carries a move-only value in a message, which has to be copyable. The one receiver takes it.
template <class T>
class parcel {
 public:
  explicit parcel(T value) : value_(std::make_shared<std::optional<T>>(std::move(value))) {}

  /// The value; once.
  T take() {
    T out = std::move(**value_);
    value_->reset();
    return out;
  }

 private:
  std::shared_ptr<std::optional<T>> value_;
};

}  // namespace kvern::actors
