#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace kvern::actors {

/// Finds stop strings in a growing text, wherever the text is cut into pieces, and holds back what may become one.
/// Of several matches the one that ends first counts; of those that end together, the longest. The result does not
/// depend on how the text was cut. Time is linear in the text, for each stop string. Not thread-safe.
class stop_matcher {
 public:
  static constexpr std::size_t max_strings = 16;
  static constexpr std::size_t max_bytes = 4096;  ///< of one stop string

  /// No stop strings: nothing is held back.
  stop_matcher() = default;

  /// Errors: `invalid_request` (too many, an empty or too long one, one that begins inside a UTF-8 character).
  static result<stop_matcher> create(std::vector<std::string> stops);

  /// The text that became certain: it is not part of a stop string. After a match: the text before it, and from then
  /// on nothing.
  std::string push(std::string_view text);

  /// The text ends here: what was held back, unless a stop string was met.
  std::string finish();

  /// The stop string that was met.
  const std::optional<std::string>& met() const { return met_; }

  /// Bytes held back.
  std::size_t held() const { return held_.size() - start_; }

 private:
  struct pattern {
    std::string text;
    std::vector<std::uint32_t> fallback;  ///< [text.size()]: length of the longest border of text[0..i]
    std::uint32_t matched = 0;            ///< length of the prefix of `text` that the pushed text ends with
  };

  static void advance(pattern& p, char byte);
  std::string take(std::size_t bytes);

  std::vector<pattern> patterns_;
  std::string held_;  ///< pushed and not yet given out, from `start_`
  std::size_t start_ = 0;
  std::optional<std::string> met_;
};

}  // namespace kvern::actors
