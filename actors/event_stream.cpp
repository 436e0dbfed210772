#include "actors/event_stream.hpp"

#include <utility>

#include "actors/errors.hpp"

namespace kvern::actors {

event_stream::event_stream(std::shared_ptr<generation_sink> sink, std::shared_ptr<std::atomic<std::int64_t>> refused)
    : sink_(std::move(sink)), refused_(std::move(refused)) {}

event_stream& event_stream::operator=(event_stream&& other) noexcept {
  if (this == &other) return *this;
  close();
  sink_ = std::move(other.sink_);
  refused_ = std::move(other.refused_);
  started_ = other.started_;
  return *this;
}

event_stream::~event_stream() { close(); }

void event_stream::close() noexcept {
  if (!sink_) return;
  try {
    fail(shutting_down());
  } catch (...) {
    sink_.reset();
  }
}

bool event_stream::start(started_event event) {
  if (started_) return false;
  started_ = true;
  return send(std::move(event));
}

bool event_stream::progress(progress_event event) { return started_ && send(event); }

bool event_stream::text(text_event event) { return started_ && send(std::move(event)); }

bool event_stream::end(end_event event) {
  if (!started_) return false;
  const bool taken = send(std::move(event));
  sink_.reset();
  return taken;
}

bool event_stream::refuse(error why) {
  if (started_ || !sink_) return false;
  if (refused_) refused_->fetch_add(1, std::memory_order_relaxed);
  const bool taken = send(refused_event{std::move(why)});
  sink_.reset();
  return taken;
}

bool event_stream::fail(error why) {
  if (!started_) return refuse(std::move(why));
  end_event event;
  event.reason = gpu::finish_reason::failed;
  event.why = std::move(why);
  return end(std::move(event));
}

bool event_stream::send(generation_event event) {
  if (!sink_) return false;
  try {
    sink_->on_event(std::move(event));
    return true;
  } catch (...) {
    // A sink that throws has lost its place in the stream; nothing more can be said to it.
    sink_.reset();
    return false;
  }
}

}  // namespace kvern::actors
