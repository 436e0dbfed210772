#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "actors/service.hpp"
#include "ipc/completion_request.hpp"
#include "ipc/event_queue.hpp"
#include "ipc/http.hpp"
#include "ipc/hub.hpp"
#include "ipc/signal.hpp"

namespace kvern::ipc {

class completion;

/// One client: reads requests one after another and answers each before it reads the next. Lives on the io thread;
/// what comes from the service's threads comes through `signal`.
class connection : public std::enable_shared_from_this<connection> {
 public:
  using socket = boost::asio::local::stream_protocol::socket;

  connection(socket s, std::shared_ptr<hub> h, const peer& who);
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;
  ~connection();

  /// Serves until the client or the server ends it. `self` keeps this alive.
  static boost::asio::awaitable<void> run(std::shared_ptr<connection> self);
  /// Sees the client hang up while its request runs, whatever it has sent ahead.
  static boost::asio::awaitable<void> watch(std::shared_ptr<connection> self);

  /// The hub is stopping: ends now when it waits for a request, and after an error when it answers one.
  void begin_stop();
  /// Closes the socket, whatever goes on.
  void abort();

 private:
  enum class incoming { request, refused, closed };
  struct running;

  boost::asio::awaitable<void> serve();
  /// Reads the next request into request_, or why there is none into refusal_.
  boost::asio::awaitable<incoming> read_request();
  boost::asio::awaitable<incoming> read_body(void* parser);
  /// Makes room for the body, and for the transfer that the request is. False: refusal_ says why there is none.
  bool reserve(std::uint64_t body);
  incoming refuse(std::string code, std::string message);

  // Each returns whether the connection can take another request.
  boost::asio::awaitable<bool> answer();
  boost::asio::awaitable<bool> complete(completion_kind kind);
  boost::asio::awaitable<bool> stream(std::shared_ptr<running> r);
  boost::asio::awaitable<bool> collect(std::shared_ptr<running> r);
  boost::asio::awaitable<bool> send(http_reply reply);
  /// Writes all of `data`; false when the client is gone or takes nothing.
  boost::asio::awaitable<bool> write(std::string data);

  /// Starts the generations of a request; their events come through queue_.
  std::shared_ptr<running> begin(const completion_request& request);
  /// Waits for events and gives them to the answer. False: the client is gone.
  boost::asio::awaitable<bool> take_events(running& r);
  /// Closes so that the client can still read what was sent to it, though it goes on sending.
  boost::asio::awaitable<void> linger();

  void on_wake();
  void release_body();
  std::uint64_t body_limit() const;

  std::shared_ptr<hub> hub_;
  peer peer_;
  boost::beast::basic_stream<boost::asio::local::stream_protocol> stream_;
  boost::beast::flat_buffer buffer_;
  std::shared_ptr<signal> signal_;
  std::shared_ptr<event_queue> queue_;  ///< of the request that runs

  http_request request_;
  http_reply refusal_;
  std::uint64_t reserved_ = 0;
  bool transfers_ = false;  ///< holds the hub's room for an export or import
  bool keep_alive_ = true;
  bool http10_ = false;
  bool reading_ = false;
  bool gone_ = false;
};

}  // namespace kvern::ipc
