#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "actors/service.hpp"
#include "ipc/endpoints.hpp"
#include "ipc/server.hpp"

namespace kvern::ipc {

class connection;

/// What the connections of one server share. For the io thread, but for what says otherwise.
class hub {
 public:
  hub(server_options o, std::shared_ptr<service> s);

  /// Whether another connection of `user` may be served.
  bool admits(uid_t user) const;
  void add(connection* c, uid_t user);
  void remove(connection* c, uid_t user);

  /// Room for a body of `bytes`, of what all bodies may take together. Given back with release_body.
  bool reserve_body(std::uint64_t bytes);
  void release_body(std::uint64_t bytes) { body_bytes_ -= bytes; }

  /// Room for one export or import, from its beginning until its answer is sent; one for each user, few in all. Given
  /// back with end_transfer.
  bool begin_transfer(uid_t user);
  void end_transfer(uid_t user) { transfers_.erase(user); }

  /// `prefix` and 24 random hexadecimal digits.
  std::string new_id(std::string_view prefix);

  /// Connections open now. From any thread.
  std::int64_t open() const { return open_; }
  /// Waits until no connection is open; false when `limit` passed before. From any thread but the io thread.
  bool wait_for_none(std::chrono::milliseconds limit);

  const server_options options;
  const std::shared_ptr<kvern::service> service;
  const endpoints api;
  bool stopping = false;
  std::unordered_set<connection*> connections;

 private:
  std::uint64_t body_bytes_ = 0;
  std::unordered_map<uid_t, std::int64_t> by_user_;
  std::unordered_set<uid_t> transfers_;
  std::mt19937_64 random_;
  std::atomic<std::int64_t> open_ = 0;
  std::mutex mutex_;
  std::condition_variable none_;
};

}  // namespace kvern::ipc
