#pragma once

#include <algorithm>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "actors/port.hpp"
#include "actors/service.hpp"

namespace kvern::actors {

/// Gathers what sessions say of themselves. Its destructor answers: with the last session that let go of it, all have
/// spoken or ended. Safe from any thread.
class info_collector {
 public:
  explicit info_collector(port<std::vector<session_info>> to) : to_(std::move(to)) {}
  info_collector(const info_collector&) = delete;
  info_collector& operator=(const info_collector&) = delete;
  ~info_collector() {
    std::ranges::sort(infos_, {}, [](const session_info& i) { return std::tie(i.created, i.id); });
    to_.answer(std::move(infos_));
  }

  void add(session_info info) {
    const std::lock_guard lock(mutex_);
    infos_.push_back(std::move(info));
  }

 private:
  std::mutex mutex_;
  std::vector<session_info> infos_;
  port<std::vector<session_info>> to_;
};

}  // namespace kvern::actors
