#include "gpu/engine/prompt_lookup.hpp"

#include <algorithm>

namespace kvern::gpu {
namespace {

constexpr std::int32_t nowhere = -1;
constexpr std::int32_t most_occurrences = 32;
constexpr std::int32_t most_looked_at = 256;  // with other pairs of the same hash
constexpr std::size_t fewest_slots = 256;

/// Tokens up to `a` and up to `b`, both included, that are alike; `a` is the earlier position.
std::int32_t match_length(std::span<const token_id> tokens, std::int32_t a, std::int32_t b) {
  const std::int32_t most = std::min(a + 1, prompt_lookup::longest_match);
  std::int32_t length = 0;
  while (length < most && tokens[static_cast<std::size_t>(a - length)] == tokens[static_cast<std::size_t>(b - length)])
    ++length;
  return length;
}

}  // namespace

std::size_t prompt_lookup::slot(token_id before, token_id last) const {
  const auto key = static_cast<std::uint64_t>(static_cast<std::uint32_t>(before)) << 32 |
                   static_cast<std::uint64_t>(static_cast<std::uint32_t>(last));
  const std::uint64_t mixed = key * 0x9e3779b97f4a7c15U;
  return static_cast<std::size_t>((mixed ^ mixed >> 32) & (latest_.size() - 1));
}

void prompt_lookup::enter(std::span<const token_id> tokens, std::int32_t position) {
  const auto at = static_cast<std::size_t>(position);
  if (position == 0) return;
  std::int32_t& latest = latest_[slot(tokens[at - 1], tokens[at])];
  earlier_[at] = latest;
  latest = position;
}

void prompt_lookup::update(std::span<const token_id> tokens) {
  auto entered = static_cast<std::int32_t>(earlier_.size());
  earlier_.resize(tokens.size(), nowhere);
  if (latest_.size() < tokens.size() || latest_.empty()) {
    std::size_t slots = std::max(fewest_slots, latest_.size());
    while (slots < tokens.size()) slots *= 2;
    latest_.assign(slots, nowhere);
    entered = 0;
  }
  for (; entered < static_cast<std::int32_t>(tokens.size()); ++entered) enter(tokens, entered);
}

std::int32_t prompt_lookup::find(std::span<const token_id> tokens, std::int32_t most,
                                 std::vector<token_id>& draft) const {
  draft.clear();
  const auto size = static_cast<std::int32_t>(tokens.size());
  if (size <= shortest_match || most <= 0) return 0;
  const std::int32_t last = size - 1;
  std::int32_t from = nowhere;
  std::int32_t match = shortest_match - 1;
  std::int32_t at = earlier_[static_cast<std::size_t>(last)];
  std::int32_t occurrences = 0;
  for (std::int32_t i = 0; i < most_looked_at && at != nowhere && match < longest_match; ++i) {
    const std::int32_t length = match_length(tokens, at, last);
    if (length >= shortest_match && ++occurrences > most_occurrences) break;
    if (length > match) {
      match = length;
      from = at;
    }
    at = earlier_[static_cast<std::size_t>(at)];
  }
  if (from == nowhere) return 0;
  const std::int32_t period = last - from;
  for (std::int32_t i = 0; i < most; ++i)
    draft.push_back(i < period ? tokens[static_cast<std::size_t>(from + 1 + i)]
                               : draft[static_cast<std::size_t>(i - period)]);
  return match;
}

}  // namespace kvern::gpu
