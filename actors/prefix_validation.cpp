#include "actors/prefix_validation.hpp"

#include <algorithm>

namespace kvern::actors {

prefix_match validate_prefix(std::span<const token_id> cached, std::span<const token_id> prompt) {
  if (cached.empty()) return {};
  const auto [in_cache, in_prompt] = std::ranges::mismatch(cached, prompt);
  const std::int64_t common = in_cache - cached.begin();
  const bool whole_cache = in_cache == cached.end();
  const bool whole_prompt = in_prompt == prompt.end();
  if (whole_prompt) {
    return {std::max<std::int64_t>(common - 1, 0), whole_cache ? cache_reason::same : cache_reason::shorter, {}};
  }
  if (whole_cache) return {common, cache_reason::extends, {}};
  return {common, cache_reason::mismatch, common};
}

}  // namespace kvern::actors
