#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/service.hpp"
#include "base/error.hpp"

namespace kvern::ipc {

struct server_options {
  std::string socket_path;     ///< bound and listened on, unless `listening` has descriptors
  std::vector<int> listening;  ///< sockets handed over (LISTEN_FDS); owned from then on
  mode_t socket_mode = 0660;
  std::uint64_t max_body_bytes = 16u << 20;
  std::uint64_t max_queued_bytes = 1u << 20;         ///< unsent bytes of one connection before it is closed
  std::chrono::seconds write_timeout{30};            ///< a client that takes nothing for so long is closed
  std::chrono::seconds idle_timeout{600};            ///< between requests of a connection
  std::chrono::milliseconds header_timeout{10'000};  ///< from a request's first byte to the end of its headers
  std::chrono::milliseconds body_timeout{60'000};    ///< for a request's body
  std::chrono::milliseconds stall_after{10'000};     ///< heartbeat age with work to do that /health calls stalled
  std::uint32_t max_header_bytes = 16u << 10;
  std::uint64_t max_body_memory = 128u << 20;  ///< bodies of all connections together, while they are read
  std::size_t max_transfers = 4;               ///< exports and imports at once; one user may have one
  std::int64_t max_connections = 1024;         ///< one user may hold three quarters of them
};

/// HTTP/1.1 over AF_UNIX in front of a service; runs its own io thread. See docs/protocol.md.
class server {
 public:
  /// Binds and listens, serves from then on. A stale socket file (nobody listens on it) is replaced.
  /// Errors: `socket_in_use` (a live daemon answers on it), `socket_path_invalid` (too long, not a socket, no folder,
  /// no permission).
  static result<std::unique_ptr<server>> start(server_options options, std::shared_ptr<service> s);
  virtual ~server() = default;

  /// Stops accepting and admitting, ends streams with an error event, closes connections, removes the socket file it
  /// bound, and joins the io thread; within `limit`.
  virtual void stop(std::chrono::milliseconds limit) = 0;

  virtual std::int64_t connections() const = 0;
};

}  // namespace kvern::ipc
