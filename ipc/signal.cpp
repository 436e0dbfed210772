#include "ipc/signal.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace kvern::ipc {

namespace asio = boost::asio;

signal::signal(asio::any_io_executor executor, std::function<void()> on_wake)
    : executor_(executor), on_wake_(std::move(on_wake)), timer_(std::in_place, std::move(executor)) {}

void signal::notify() {
  const std::lock_guard lock(mutex_);
  if (closed_ || posted_) return;
  posted_ = true;
  asio::post(executor_, [self = shared_from_this()] { self->wake(); });
}

void signal::wake() {
  {
    const std::lock_guard lock(mutex_);
    posted_ = false;
    if (closed_) return;
  }
  if (on_wake_) on_wake_();
  if (timer_) timer_->cancel();
}

asio::awaitable<void> signal::wait() {
  if (!timer_) co_return;
  timer_->expires_at(asio::steady_timer::time_point::max());
  co_await timer_->async_wait(asio::as_tuple(asio::use_awaitable));
}

void signal::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  on_wake_ = nullptr;
  timer_.reset();
}

}  // namespace kvern::ipc
