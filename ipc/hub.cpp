#include "ipc/hub.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvern::ipc {
namespace {

std::mt19937_64 seeded() {
  std::random_device device;
  std::seed_seq seeds{device(), device(), device(), device()};
  return std::mt19937_64(seeds);
}

}  // namespace

hub::hub(server_options o, std::shared_ptr<kvern::service> s)
    : options(std::move(o)), service(std::move(s)), api(service, options.stall_after), random_(seeded()) {}

bool hub::admits(uid_t user) const {
  const auto it = by_user_.find(user);
  const std::int64_t own = it == by_user_.end() ? 0 : it->second;
  // The last quarter is for the others.
  return open_ < options.max_connections && own < std::max<std::int64_t>(1, options.max_connections * 3 / 4);
}

void hub::add(connection* c, uid_t user) {
  connections.insert(c);
  ++by_user_[user];
  ++open_;
}

void hub::remove(connection* c, uid_t user) {
  if (connections.erase(c) == 0) return;
  if (--by_user_[user] == 0) by_user_.erase(user);
  {
    const std::lock_guard lock(mutex_);
    --open_;
  }
  none_.notify_all();
}

bool hub::reserve_body(std::uint64_t bytes) {
  if (bytes > options.max_body_memory - std::min(body_bytes_, options.max_body_memory)) return false;
  body_bytes_ += bytes;
  return true;
}

bool hub::begin_transfer(uid_t user) {
  if (transfers_.size() >= options.max_transfers) return false;
  return transfers_.insert(user).second;
}

std::string hub::new_id(std::string_view prefix) {
  return fmt::format("{}{:016x}{:08x}", prefix, random_(), random_() & 0xffffffffu);
}

bool hub::wait_for_none(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return none_.wait_for(lock, limit, [this] { return open_ == 0; });
}

}  // namespace kvern::ipc
