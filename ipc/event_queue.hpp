#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "actors/service.hpp"

namespace kvern::ipc {

/// Events of one request's generations on their way from the service's threads to the connection's. Bounded in bytes:
/// what a client does not take is not kept for it without end.
class event_queue : public std::enable_shared_from_this<event_queue> {
 public:
  struct item {
    std::size_t choice = 0;
    generation_event event;
  };

  /// `wake` is called, from any thread and under no lock, when events wait or the queue overflowed; it must not block.
  /// `max_bytes` bounds what waits, measured as it will be on the wire.
  event_queue(std::function<void()> wake, std::uint64_t max_bytes);

  /// Where the events of choice `index` go. Keeps the queue alive. Safe to use from any thread.
  std::shared_ptr<generation_sink> sink(std::size_t index);

  /// All events that wait.
  std::vector<item> take();

  /// Events were dropped because the reader is too slow: the answer cannot be completed.
  bool overflowed() const;

  /// Drops what waits and all that is still to come.
  void close();

 private:
  class sink_of_choice;

  void push(std::size_t index, generation_event event);

  std::function<void()> wake_;
  std::uint64_t max_bytes_;
  mutable std::mutex mutex_;
  std::vector<item> items_;
  std::uint64_t bytes_ = 0;
  bool overflowed_ = false;
  bool closed_ = false;
};

/// About the bytes that an event takes on the wire, in memory less. What starts and ends a turn counts nothing: there
/// is one of each, and the prompt in it is bounded by the context.
std::uint64_t wire_bytes(const generation_event& event);

}  // namespace kvern::ipc
