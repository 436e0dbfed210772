#include "ipc/token_pieces.hpp"

#include <algorithm>
#include <atomic>

namespace kvern::ipc {
namespace {

/// Calls `done` when the last of its owners lets go, be it after a reply or because a reply never came.
class countdown {
 public:
  explicit countdown(std::move_only_function<void()> done) : done_(std::move(done)) {}
  countdown(const countdown&) = delete;
  countdown& operator=(const countdown&) = delete;
  ~countdown() { done_(); }

 private:
  std::move_only_function<void()> done_;
};

}  // namespace

std::optional<std::string> token_pieces::find(token_id id) const {
  const std::lock_guard lock(state_->mutex);
  const auto it = state_->known.find(id);
  if (it == state_->known.end()) return std::nullopt;
  return it->second;
}

void token_pieces::resolve(std::span<const token_id> ids, std::move_only_function<void()> done) {
  std::vector<token_id> missing;
  {
    const std::lock_guard lock(state_->mutex);
    for (const token_id id : ids) {
      if (!state_->known.contains(id)) missing.push_back(id);
    }
  }
  std::ranges::sort(missing);
  missing.erase(std::ranges::unique(missing).begin(), missing.end());
  const auto last = std::make_shared<countdown>(std::move(done));
  for (const token_id id : missing) {
    // A tokenizer may drop the space that begins a text, so a lone token could lose its own. Of the token written
    // twice, the second half is whole either way.
    service_->detokenize({id, id}, [id, last, known = state_](result<std::string> twice) {
      std::string piece;
      if (twice) piece = twice->substr(twice->size() / 2);
      const std::lock_guard lock(known->mutex);
      known->known.try_emplace(id, std::move(piece));
    });
  }
}

}  // namespace kvern::ipc
