#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/token.hpp"

/// Selection over a vocabulary of logits in one pass. Infinite and NaN logits do not exist for these functions.
namespace kvern {

struct candidate {
  float logit = 0;
  token_id id = 0;
};

/// The order of candidates: likeliest first, of equal logits the lowest id.
inline bool likelier(const candidate& a, const candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

/// The id of the largest finite logit, the lowest of equals; -1 when there is none.
token_id argmax(std::span<const float> logits);

/// The `k` likeliest of the finite logits, in order, into `out` (fewer when there are fewer).
void top_k(std::span<const float> logits, std::size_t k, std::vector<candidate>& out);

/// All finite logits by ascending id, into `out`.
void all_finite(std::span<const float> logits, std::vector<candidate>& out);

}  // namespace kvern
