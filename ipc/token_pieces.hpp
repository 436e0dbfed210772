#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/service.hpp"

namespace kvern::ipc {

/// Bytes of single tokens, asked of the service once and kept: alternatives of log-probabilities come as ids. At most
/// one entry for each token of the vocabulary. Safe to use from any thread.
class token_pieces {
 public:
  explicit token_pieces(std::shared_ptr<service> s) : service_(std::move(s)) {}

  /// Bytes of `id`, as far as they are known.
  std::optional<std::string> find(token_id id) const;

  /// Makes the bytes of `ids` known, then calls `done` once, on a thread of the service's choice or at once. An id that
  /// the service cannot detokenize becomes no bytes.
  void resolve(std::span<const token_id> ids, std::move_only_function<void()> done);

 private:
  struct state {
    mutable std::mutex mutex;
    std::unordered_map<token_id, std::string> known;
  };

  std::shared_ptr<service> service_;
  std::shared_ptr<state> state_ = std::make_shared<state>();
};

}  // namespace kvern::ipc
