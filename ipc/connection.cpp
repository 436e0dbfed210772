#include "ipc/connection.hpp"

#include <malloc.h>

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <utility>

#include "ipc/errors.hpp"
#include "ipc/request_log.hpp"

namespace kvern::ipc {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

// Operations yield their error beside their result instead of throwing it.
constexpr auto token = asio::as_tuple(asio::use_awaitable);

constexpr std::uint64_t large_body = std::uint64_t{1} << 20;

using parser_type = http::request_parser<http::string_body>;

constexpr std::size_t read_size = 16u << 10;
constexpr std::chrono::seconds linger_time{2};
constexpr std::uint64_t linger_bytes = 64u << 20;

}  // namespace

connection::connection(socket s, std::shared_ptr<hub> h, const peer& who)
    : hub_(std::move(h)),
      peer_(who),
      stream_(std::move(s)),
      signal_(std::make_shared<signal>(stream_.get_executor(), [this] { on_wake(); })) {
  hub_->add(this, peer_.uid);
}

connection::~connection() {
  signal_->close();
  if (queue_) queue_->close();
  release_body();
  hub_->remove(this, peer_.uid);
}

asio::awaitable<void> connection::run(std::shared_ptr<connection> self) {
  try {
    co_await self->serve();
  } catch (const std::exception& e) {
    // Out of memory, most likely: this client's connection ends, the others go on.
    spdlog::warn("a connection of uid {} ended by an internal error: {}", self->peer_.uid, e.what());
  }
  self->abort();
}

asio::awaitable<void> connection::watch(std::shared_ptr<connection> self) {
  asio::steady_timer pause(self->stream_.get_executor());
  for (;;) {
    const auto [ec] = co_await self->stream_.socket().async_wait(socket::wait_error, token);
    if (ec || !self->stream_.socket().is_open()) co_return;
    pollfd state{self->stream_.socket().native_handle(), 0, 0};
    if (::poll(&state, 1, 0) > 0 && (state.revents & (POLLHUP | POLLERR)) != 0) {
      self->gone_ = true;
      self->signal_->notify();
      co_return;
    }
    // Out-of-band data wakes this too, and stays: not to spin on it.
    pause.expires_after(std::chrono::seconds(1));
    co_await pause.async_wait(token);
  }
}

void connection::begin_stop() {
  if (reading_) {
    abort();
  } else {
    signal_->notify();
  }
}

void connection::abort() {
  gone_ = true;
  signal_->notify();
  stream_.close();
}

void connection::on_wake() {
  // The writer may be stuck on the very client that is too slow: only closing ends that.
  if (queue_ && queue_->overflowed()) abort();
}

void connection::release_body() {
  const auto reserved = std::exchange(reserved_, 0);
  hub_->release_body(reserved);
  const bool transferred = std::exchange(transfers_, false);
  if (transferred) hub_->end_transfer(peer_.uid);
  if (reserved < large_body && !transferred) return;
  request_ = {};
  malloc_trim(0);  // else glibc keeps what a large body and its JSON took
}

asio::awaitable<void> connection::serve() {
  for (bool keep = true; keep && !gone_ && !hub_->stopping;) {
    reading_ = true;
    const incoming what = co_await read_request();
    reading_ = false;
    if (what == incoming::closed) co_return;
    if (what == incoming::refused) {
      keep_alive_ = false;
      http_reply reply = std::move(refusal_);
      write_log(request_.method, request_.target, peer_.uid, reply.status, 0);
      if (co_await send(std::move(reply))) co_return;
      if (!gone_) co_await linger();
      co_return;
    }
    keep = co_await answer();
    release_body();
  }
}

connection::incoming connection::refuse(std::string code, std::string message) {
  refusal_ = error_reply(error{std::move(code), std::move(message)});
  return incoming::refused;
}

asio::awaitable<connection::incoming> connection::read_request() {
  request_ = {};
  keep_alive_ = false;
  http10_ = false;
  if (buffer_.size() == 0) {
    stream_.expires_after(hub_->options.idle_timeout);
    const auto space = buffer_.prepare(read_size);
    const auto [ec, size] = co_await stream_.async_read_some(space, token);
    if (ec) co_return incoming::closed;
    buffer_.commit(size);
  }

  parser_type parser;
  parser.header_limit(hub_->options.max_header_bytes);
  const auto import_limit = hub_->service->max_import_bytes();
  parser.body_limit(std::max(hub_->options.max_body_bytes, import_limit));
  stream_.expires_after(hub_->options.header_timeout);
  const auto [ec, size] = co_await http::async_read_header(stream_, buffer_, parser, token);
  if (ec == http::error::body_limit) {
    co_return refuse("body_too_large", fmt::format("the body is larger than the limit of {} bytes; send less",
                                                   hub_->options.max_body_bytes));
  }
  if (ec == http::error::header_limit || ec == http::error::buffer_overflow) {
    co_return refuse("headers_too_large", fmt::format("the request's headers are larger than the limit of {} bytes",
                                                      hub_->options.max_header_bytes));
  }
  if (ec == http::error::end_of_stream || ec == http::error::partial_message ||
      ec.category() != http::make_error_code(http::error::bad_method).category()) {
    if (ec) co_return incoming::closed;
  } else if (ec) {
    co_return refuse("bad_http", fmt::format("the request is not valid HTTP/1.1: {}", ec.message()));
  }

  http10_ = parser.get().version() == 10;
  request_.method = std::string(parser.get().method_string());
  request_.target = std::string(parser.get().target());
  parser.body_limit(body_limit());
  const incoming body = co_await read_body(&parser);
  if (body != incoming::request) co_return body;
  keep_alive_ = !http10_ && parser.keep_alive();
  request_.body = std::move(parser.get().body());
  co_return incoming::request;
}

asio::awaitable<connection::incoming> connection::read_body(void* p) {
  auto& parser = *static_cast<parser_type*>(p);
  const std::uint64_t limit = body_limit();
  const auto length = parser.content_length();
  if (length && *length > limit) {
    co_return refuse("body_too_large", fmt::format("the body is larger than the limit of {} bytes; send less", limit));
  }
  if (!reserve(parser.is_done() ? 0 : length ? *length : limit)) co_return incoming::refused;
  if (parser.is_done()) co_return incoming::request;
  const auto expect = parser.get()[http::field::expect];
  if (!expect.empty()) {
    if (!beast::iequals(expect, "100-continue")) co_return refuse("expectation_failed", "only 100-continue is known");
    std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    if (!co_await write(std::move(go_on))) co_return incoming::closed;
  }
  stream_.expires_after(hub_->options.body_timeout);
  const auto [ec, size] = co_await http::async_read(stream_, buffer_, parser, token);
  if (!ec) co_return incoming::request;
  if (ec == http::error::body_limit) {
    co_return refuse("body_too_large", fmt::format("the body is larger than the limit of {} bytes; send less", limit));
  }
  if (ec == http::error::partial_message ||
      ec.category() != http::make_error_code(http::error::bad_method).category()) {
    co_return incoming::closed;
  }
  co_return refuse("bad_http", fmt::format("the request is not valid HTTP/1.1: {}", ec.message()));
}

std::uint64_t connection::body_limit() const {
  const bool import = transfer_of(request_.method, request_.target) == transfer_kind::in;
  return import ? hub_->service->max_import_bytes() : hub_->options.max_body_bytes;
}

bool connection::reserve(std::uint64_t body) {
  const auto kind = transfer_of(request_.method, request_.target);
  if (kind != transfer_kind::none) {
    transfers_ = hub_->begin_transfer(peer_.uid);
    if (!transfers_) {
      refuse("server_busy", "a session is being exported or imported already; retry in a moment");
      return false;
    }
  }
  // What imports take is bounded by their number.
  if (kind == transfer_kind::in) return true;
  if (!hub_->reserve_body(body)) {
    refuse("server_busy", "too many large requests are being read; retry in a moment");
    return false;
  }
  reserved_ = body;
  return true;
}

asio::awaitable<bool> connection::send(http_reply reply) {
  const bool keep = keep_alive_ && !hub_->stopping;
  std::string head = reply_head(reply, keep);
  if (request_.method == "HEAD") reply.body.clear();
  // A small answer goes in one piece; a large one is not copied for that.
  if (reply.body.size() < large_body) head += std::exchange(reply.body, {});
  bool written = co_await write(std::move(head));
  if (written && !reply.body.empty()) written = co_await write(std::move(reply.body));
  co_return written&& keep;
}

asio::awaitable<bool> connection::write(std::string data) {
  std::string_view left = data;
  while (!left.empty()) {
    const asio::const_buffer piece(left.data(), left.size());
    stream_.expires_after(hub_->options.write_timeout);
    const auto [ec, size] = co_await stream_.async_write_some(piece, token);
    if (ec) {
      gone_ = true;
      co_return false;
    }
    left.remove_prefix(size);
  }
  co_return true;
}

asio::awaitable<void> connection::linger() {
  boost::system::error_code ignored;
  stream_.socket().shutdown(socket::shutdown_send, ignored);
  buffer_.clear();
  stream_.expires_after(linger_time);
  for (std::uint64_t total = 0; total < linger_bytes && !gone_ && !hub_->stopping;) {
    const auto space = buffer_.prepare(read_size);
    const auto [ec, size] = co_await stream_.async_read_some(space, token);
    if (ec) co_return;
    total += size;
  }
}

}  // namespace kvern::ipc
