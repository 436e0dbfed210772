#include "ipc/event_queue.hpp"

#include <utility>

namespace kvern::ipc {
namespace {

// Measured on chunks of chat completions: envelope, and each token's or alternative's entry.
constexpr std::uint64_t chunk_bytes = 256;
constexpr std::uint64_t token_bytes = 64;
constexpr std::uint64_t alternative_bytes = 80;

}  // namespace

class event_queue::sink_of_choice final : public generation_sink {
 public:
  sink_of_choice(std::shared_ptr<event_queue> queue, std::size_t index) : queue_(std::move(queue)), index_(index) {}
  void on_event(generation_event event) override { queue_->push(index_, std::move(event)); }

 private:
  std::shared_ptr<event_queue> queue_;
  std::size_t index_;
};

event_queue::event_queue(std::function<void()> wake, std::uint64_t max_bytes)
    : wake_(std::move(wake)), max_bytes_(max_bytes) {}

std::shared_ptr<generation_sink> event_queue::sink(std::size_t index) {
  return std::make_shared<sink_of_choice>(shared_from_this(), index);
}

void event_queue::push(std::size_t index, generation_event event) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || overflowed_) return;
    const std::uint64_t size = wire_bytes(event);
    if (bytes_ + size > max_bytes_) {
      overflowed_ = true;
      items_.clear();
    } else {
      bytes_ += size;
      items_.push_back({index, std::move(event)});
    }
  }
  wake_();
}

std::vector<event_queue::item> event_queue::take() {
  const std::lock_guard lock(mutex_);
  bytes_ = 0;
  return std::exchange(items_, {});
}

bool event_queue::overflowed() const {
  const std::lock_guard lock(mutex_);
  return overflowed_;
}

void event_queue::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  items_.clear();
}

std::uint64_t wire_bytes(const generation_event& event) {
  if (std::holds_alternative<progress_event>(event)) return chunk_bytes;
  const auto* text = std::get_if<text_event>(&event);
  if (text == nullptr) return 0;
  std::uint64_t bytes = chunk_bytes + text->text.size();
  for (const generated_token& t : text->tokens) {
    bytes += token_bytes + alternative_bytes * t.logprob.alternatives.size();
  }
  return bytes;
}

}  // namespace kvern::ipc
