#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <utility>

namespace kvern::actors {

/// Work of several tenants, one item of each in turn; a tenant's own items in order. Bounded per tenant. Not
/// thread-safe.
template <class T>
class fair_queue {
 public:
  explicit fair_queue(std::size_t most_per_tenant) : most_(most_per_tenant) {}

  /// False, with `item` untouched: the tenant has as many as it may.
  bool push(const std::string& tenant, T& item) {
    auto& queue = queues_[tenant];
    if (queue.size() >= most_) return false;
    if (queue.empty()) turns_.push_back(tenant);
    queue.push_back(std::move(item));
    return true;
  }

  bool empty() const { return turns_.empty(); }

  /// The next item; the queue must not be empty.
  T pop() {
    auto tenant = std::move(turns_.front());
    turns_.pop_front();
    const auto found = queues_.find(tenant);
    T item = std::move(found->second.front());
    found->second.pop_front();
    if (found->second.empty()) {
      queues_.erase(found);
    } else {
      turns_.push_back(std::move(tenant));
    }
    return item;
  }

 private:
  std::size_t most_;
  std::map<std::string, std::deque<T>> queues_;  ///< none is empty
  std::deque<std::string> turns_;                ///< tenants with items, next first
};

}  // namespace kvern::actors
