#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "model/tokenizer/vocabulary.hpp"

namespace kvern {

/// A string that takes part in merges: below the vocabulary's size it is the ordinary token of that id, from there on a
/// string that merges make or use but that is no ordinary token.
using symbol_id = std::uint32_t;
inline constexpr symbol_id no_symbol = 0xFFFFFFFF;

/// The merges of a BPE vocabulary, by the pair of symbols they join. Immutable; safe to use from any thread.
class merge_table {
 public:
  struct merge {
    std::uint32_t rank;  ///< lower goes first; `no_rank` for none
    symbol_id joined;
  };
  static constexpr std::uint32_t no_rank = 0xFFFFFFFF;

  /// `merges`: "left right", in rank order; of a pair that stands twice the first counts, a line that is no pair is
  /// passed over. `letters`: strings that texts begin as, which get symbols even if no merge names them a token. At
  /// most 2^30 merges are taken.
  merge_table(const vocabulary& words, std::span<const std::string_view> merges,
              std::span<const std::string_view> letters);

  merge find(symbol_id left, symbol_id right) const;
  /// The symbol of a letter, by its place in the constructor's list.
  symbol_id letter(std::size_t place) const { return letters_[place]; }

 private:
  struct slot {
    symbol_id left = no_symbol;
    symbol_id right = no_symbol;
    merge value{no_rank, no_symbol};
  };
  std::size_t place_of(symbol_id left, symbol_id right) const;

  std::vector<slot> slots_;  // open addressing, a power of two of them
  std::vector<symbol_id> letters_;
};

}  // namespace kvern
