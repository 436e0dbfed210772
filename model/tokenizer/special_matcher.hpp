#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/token.hpp"
#include "model/tokenizer/vocabulary.hpp"

namespace kvern {

/// A special token in a text: bytes [begin, end) are the token's and, where it swallows them, the white space after it.
struct special_match {
  std::size_t begin;
  std::size_t end;
  token_id id;

  friend bool operator==(const special_match&, const special_match&) = default;
};

/// Bytes [begin, end) of a text.
struct byte_range {
  std::size_t begin;
  std::size_t end;
};

/// Finds the special tokens of a text: control and unknown tokens where every byte is trusted, user-defined ones
/// everywhere. Immutable; safe to use from any thread. Refers to the vocabulary.
class special_matcher {
 public:
  /// `right_strip`: tokens that swallow the white space to their right.
  special_matcher(const vocabulary& words, std::vector<token_id> right_strip);

  /// The matches in order, without overlaps. A longer token goes before a shorter one, wherever they stand; of equal
  /// length the leftmost goes first. `trusted`: ascending, not touching each other. n log n in the text at worst, and
  /// one look at each byte where no special token begins.
  std::vector<special_match> find(std::string_view text, std::span<const byte_range> trusted) const;

 private:
  struct candidate {
    std::size_t begin;
    token_id id;
  };
  token_id longest_at(std::string_view text, std::size_t begin, std::size_t limit, std::size_t trusted_end) const;

  const vocabulary& words_;
  std::vector<token_id> by_text_;           // ascending by text
  std::array<std::uint32_t, 257> first_{};  // where the texts that begin with a byte stand in by_text_
  std::vector<token_id> right_strip_;       // ascending
};

}  // namespace kvern
