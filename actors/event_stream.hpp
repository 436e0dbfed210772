#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "actors/service.hpp"

namespace kvern::actors {

/// The way from a session to the sink of one request. Keeps the order of events (refused | started .. end), contains
/// what the sink throws, and closes itself: a stream dropped before its last event refuses or ends the request with
/// `shutting_down`, so that no client waits for ever. Movable; used by one thread at a time.
class event_stream {
 public:
  event_stream() = default;
  /// `refused`: counts refusals; may be null.
  event_stream(std::shared_ptr<generation_sink> sink, std::shared_ptr<std::atomic<std::int64_t>> refused);
  event_stream(event_stream&&) noexcept = default;
  event_stream& operator=(event_stream&& other) noexcept;
  ~event_stream();

  /// These return whether the sink took the event. Events out of order are dropped.
  bool start(started_event event);
  bool progress(progress_event event);
  bool text(text_event event);
  bool end(end_event event);
  bool refuse(error why);

  /// Ends with an error: refuses what has not started, ends what has (finish_reason::failed).
  bool fail(error why);

  bool started() const { return started_; }
  /// No event can follow: the last was sent, or the sink threw.
  bool closed() const { return !sink_; }

 private:
  bool send(generation_event event);
  void close() noexcept;

  std::shared_ptr<generation_sink> sink_;
  std::shared_ptr<std::atomic<std::int64_t>> refused_;
  bool started_ = false;
};

}  // namespace kvern::actors
