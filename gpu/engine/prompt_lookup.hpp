#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/token.hpp"

namespace kvern::gpu {

/// Guesses how a text goes on from the text itself: where its last tokens stood before, and what followed them there.
/// Keeps 8 to 16 bytes for each token. Not thread-safe.
class prompt_lookup {
 public:
  /// Tokens that must have stood before to be of interest, and those that are compared at most.
  static constexpr std::int32_t shortest_match = 2;
  static constexpr std::int32_t longest_match = 32;

  /// Takes what `tokens` has beyond what it had the last time; what it had must be as it was. Takes time for the new
  /// tokens alone, on average.
  void update(std::span<const token_id> tokens);

  /// `draft` gets up to `most` tokens that may follow `tokens`, which are those of the last update: what followed the
  /// longest match of their end among its latest occurrences; where that runs into the end itself, it repeats. Returns
  /// the length of the match; 0, and no draft, where there is none. Takes time for `most` and a few occurrences.
  std::int32_t find(std::span<const token_id> tokens, std::int32_t most, std::vector<token_id>& draft) const;

 private:
  std::size_t slot(token_id before, token_id last) const;
  void enter(std::span<const token_id> tokens, std::int32_t position);

  std::vector<std::int32_t> latest_;   ///< [hash of two tokens] where such last ended; -1: nowhere
  std::vector<std::int32_t> earlier_;  ///< [position] where two tokens of the same hash ended before; -1: nowhere
};

}  // namespace kvern::gpu
