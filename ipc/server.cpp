#include "ipc/server.hpp"

#include <pthread.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <list>
#include <thread>
#include <utility>

#include "ipc/connection.hpp"
#include "ipc/errors.hpp"
#include "ipc/hub.hpp"
#include "ipc/listener.hpp"

namespace kvern::ipc {
namespace {

namespace asio = boost::asio;
using protocol = asio::local::stream_protocol;

constexpr auto token = asio::as_tuple(asio::use_awaitable);

peer peer_of(int fd) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  // A socket whose peer the kernel does not know is nobody's.
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return {65534, 65534, 0};
  return {credentials.uid, credentials.gid, credentials.pid};
}

class http_server final : public server {
 public:
  http_server(server_options options, std::shared_ptr<service> s, std::vector<listener> listeners)
      : hub_(std::make_shared<hub>(std::move(options), std::move(s))), listeners_(std::move(listeners)) {
    for (listener& l : listeners_) {
      acceptors_.emplace_back(io_, protocol(), l.release());
    }
    for (auto& acceptor : acceptors_) asio::co_spawn(io_, accept(acceptor), asio::detached);
    // Signals are for the daemon's main thread.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  ~http_server() override { stop(std::chrono::milliseconds(1000)); }

  void stop(std::chrono::milliseconds limit) override {
    if (!thread_.joinable()) return;
    asio::post(io_, [this] {
      hub_->stopping = true;
      boost::system::error_code ignored;
      for (auto& acceptor : acceptors_) acceptor.close(ignored);
      each([](connection& c) { c.begin_stop(); });
    });
    for (listener& l : listeners_) l.remove_file();
    // Three quarters for clients that take their last event, the rest for closing on those that do not.
    if (!hub_->wait_for_none(limit * 3 / 4)) {
      asio::post(io_, [this] { each([](connection& c) { c.abort(); }); });
      hub_->wait_for_none(limit / 4);
    }
    guard_.reset();
    io_.stop();
    thread_.join();
    each([](connection& c) { c.abort(); });
  }

  std::int64_t connections() const override { return hub_->open(); }

 private:
  void run() {
    pthread_setname_np(pthread_self(), "kvern-io");
    while (!io_.stopped()) {
      try {
        io_.run();
      } catch (const std::exception& e) {
        // A handler ran out of memory: what it served is gone, the rest goes on.
        spdlog::warn("a connection was lost by an internal error: {}", e.what());
      }
    }
  }

  template <class Do>
  void each(Do f) {
    // What f closes may remove itself.
    std::vector<std::shared_ptr<connection>> all;
    for (connection* c : hub_->connections) all.push_back(c->shared_from_this());
    for (auto& c : all) f(*c);
  }

  asio::awaitable<void> accept(protocol::acceptor& acceptor) {
    asio::steady_timer pause(io_);
    bool warned = false;
    while (acceptor.is_open()) {
      auto [ec, socket] = co_await acceptor.async_accept(token);
      if (!ec) {
        warned = false;
        admit(std::move(socket));
        continue;
      }
      if (!acceptor.is_open()) co_return;
      // Out of descriptors or memory: the backlog waits until some are free.
      if (!warned) spdlog::warn("connections have to wait: {}", ec.message());
      warned = true;
      pause.expires_after(std::chrono::milliseconds(50));
      co_await pause.async_wait(token);
    }
  }

  void admit(protocol::socket socket) {
    const peer who = peer_of(socket.native_handle());
    if (hub_->stopping) return;
    if (!hub_->admits(who.uid)) {
      spdlog::debug("uid {} has too many connections, or all have; one was turned away", who.uid);
      const http_reply reply =
          error_reply(error{"too_many_connections", "too many connections are open; close some or retry"});
      const std::string text = reply_head(reply, false) + reply.body;
      (void)::send(socket.native_handle(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      return;
    }
    const auto c = std::make_shared<connection>(std::move(socket), hub_, who);
    asio::co_spawn(io_, connection::run(c), asio::detached);
    asio::co_spawn(io_, connection::watch(c), asio::detached);
  }

  std::shared_ptr<hub> hub_;
  std::vector<listener> listeners_;
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> guard_{io_.get_executor()};
  std::list<protocol::acceptor> acceptors_;
  std::thread thread_;
};

}  // namespace

result<std::unique_ptr<server>> server::start(server_options options, std::shared_ptr<service> s) {
  std::vector<listener> listeners;
  if (!options.listening.empty()) {
    // All of them are owned from here, also when one turns out to be unfit.
    std::optional<error> wrong;
    for (const int fd : options.listening) {
      auto adopted = listener::adopt(fd);
      if (adopted) {
        listeners.push_back(*std::move(adopted));
      } else if (!wrong) {
        wrong = adopted.error();
      }
    }
    if (wrong) return std::unexpected(*wrong);
  } else {
    auto bound = listener::bind(options.socket_path, options.socket_mode);
    if (!bound) return std::unexpected(bound.error());
    listeners.push_back(*std::move(bound));
  }
  return std::make_unique<http_server>(std::move(options), std::move(s), std::move(listeners));
}

}  // namespace kvern::ipc
