#include <chrono>
#include <ctime>
#include <utility>

#include "ipc/completion.hpp"
#include "ipc/connection.hpp"
#include "ipc/errors.hpp"
#include "ipc/request_log.hpp"

namespace kvern::ipc {
namespace {

namespace asio = boost::asio;

error shutting_down() { return {"shutting_down", "the daemon is shutting down; retry when it is back"}; }

/// A reply on its way from the service's thread. Whoever drops the port without a reply says that the worker failed,
/// so no client waits for ever.
class reply_slot {
 public:
  explicit reply_slot(std::shared_ptr<signal> s) : signal_(std::move(s)) {}

  void set(http_reply r) {
    {
      const std::lock_guard lock(mutex_);
      if (reply_) return;
      reply_ = std::move(r);
    }
    signal_->notify();
  }
  std::optional<http_reply> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(reply_, std::nullopt);
  }

 private:
  std::shared_ptr<signal> signal_;
  std::mutex mutex_;
  std::optional<http_reply> reply_;
};

/// Time since it was made.
class stopwatch {
 public:
  double milliseconds() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began_).count();
  }

 private:
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

class reply_port {
 public:
  explicit reply_port(std::shared_ptr<reply_slot> slot) : slot_(std::move(slot)) {}
  reply_port(reply_port&&) = default;
  reply_port& operator=(reply_port&&) = delete;
  ~reply_port() {
    if (slot_) slot_->set(error_reply(error{"worker_failed", "the request was lost inside the daemon; retry"}));
  }
  void operator()(http_reply r) { std::exchange(slot_, nullptr)->set(std::move(r)); }

 private:
  std::shared_ptr<reply_slot> slot_;
};

}  // namespace

/// A completion that is being generated. Going away cancels what still runs.
struct connection::running {
  running(const completion_request& request, completion_head head, const service& vocabulary,
          std::shared_ptr<event_queue> q)
      : answer(request, std::move(head), vocabulary), queue(std::move(q)) {}
  running(const running&) = delete;
  running& operator=(const running&) = delete;
  ~running() { queue->close(); }

  completion answer;
  std::shared_ptr<event_queue> queue;
  std::vector<std::unique_ptr<generation>> generations;
};

asio::awaitable<bool> connection::answer() {
  if (const auto kind = completion_of(request_)) {
    const bool keep = co_await complete(*kind);
    queue_.reset();
    co_return keep;
  }
  const stopwatch watch;
  const auto slot = std::make_shared<reply_slot>(signal_);
  http_request request{request_.method, request_.target, std::exchange(request_.body, {})};
  hub_->api.handle(peer_, std::move(request), hub_->open(), reply_port(slot));
  std::optional<http_reply> reply;
  while (!(reply = slot->take())) {
    if (gone_) co_return false;
    if (hub_->stopping) {
      reply = error_reply(shutting_down());
      break;
    }
    co_await signal_->wait();
  }
  http_reply r = *std::move(reply);
  const int status = r.status;
  const bool keep = co_await send(std::move(r));
  write_log(request_.method, request_.target, peer_.uid, status, watch.milliseconds());
  co_return keep;
}

asio::awaitable<bool> connection::complete(completion_kind kind) {
  const stopwatch watch;
  finished_request record;
  record.kind = kind;
  record.user = peer_.uid;
  const auto request = parse_completion(kind, request_.body, hub_->service->model());
  request_.body = {};
  release_body();
  bool keep = false;
  if (request) {
    record.session = !request->common.session.empty();
    const auto r = begin(*request);
    if (request->stream) {
      keep = co_await stream(r);
    } else {
      keep = co_await collect(r);
    }
    record.tokens = r->answer.usage();
    record.failure = r->answer.failure();
    record.finish = r->answer.finished() ? r->answer.finish_reasons() : "client_left";
  } else {
    record.failure = request.error().why;
    http_reply refused = error_reply(request.error());
    keep = co_await send(std::move(refused));
  }
  record.milliseconds = watch.milliseconds();
  write_log(record);
  co_return keep;
}

std::shared_ptr<connection::running> connection::begin(const completion_request& request) {
  // An answer that does not stream is collected whole; the request was refused if that could be too much.
  const std::uint64_t bound = request.stream ? hub_->options.max_queued_bytes : UINT64_MAX;
  queue_ = std::make_shared<event_queue>([s = signal_] { s->notify(); }, bound);
  completion_head head{hub_->new_id(request.kind == completion_kind::chat ? "chatcmpl-" : "cmpl-"),
                       static_cast<std::int64_t>(std::time(nullptr)), hub_->service->model().id};
  auto r = std::make_shared<running>(request, std::move(head), *hub_->service, queue_);
  for (std::size_t i = 0; i < request.choices(); ++i) {
    r->generations.push_back(hub_->service->generate(peer_, request.choice(i), queue_->sink(i)));
  }
  return r;
}

asio::awaitable<bool> connection::take_events(running& r) {
  std::vector<event_queue::item> items;
  while ((items = r.queue->take()).empty()) {
    if (gone_) co_return false;
    if (hub_->stopping) {
      r.answer.fail(shutting_down());
      co_return true;
    }
    co_await signal_->wait();
  }
  for (auto& item : items) r.answer.on_event(item.choice, std::move(item.event));
  co_return !gone_;
}

asio::awaitable<bool> connection::stream(std::shared_ptr<running> r) {
  // What is refused before it began is an HTTP error; after that the status has been sent, and errors are events.
  const bool chunked = !http10_;
  bool begun = false;
  while (!r->answer.finished()) {
    if (!co_await take_events(*r)) co_return false;
    if (!begun && r->answer.failure()) {
      http_reply refused = error_reply(*r->answer.failure());
      co_return co_await send(std::move(refused));
    }
    const std::string frames = r->answer.take_frames();
    std::string data;
    if (!begun) data = stream_head(chunked, keep_alive_);
    begun = true;
    data += chunked ? chunk(frames) : frames;
    if (r->answer.finished() && chunked) data += last_chunk;
    if (!co_await write(std::move(data))) co_return false;
  }
  co_return keep_alive_ && !hub_->stopping;
}

asio::awaitable<bool> connection::collect(std::shared_ptr<running> r) {
  while (!r->answer.finished()) {
    if (!co_await take_events(*r)) co_return false;
  }
  http_reply reply;
  if (r->answer.failure()) {
    reply = error_reply(*r->answer.failure());
  } else {
    reply.body = r->answer.body();
  }
  co_return co_await send(std::move(reply));
}

}  // namespace kvern::ipc
