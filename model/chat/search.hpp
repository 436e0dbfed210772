#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/chat/runtime.hpp"

namespace kvern::chat {

/// Looks for one string in others, in time linear in what it looks through: a template may choose both so that trying
/// every place would take the product of their sizes. The needle outlives it.
class searcher {
 public:
  enum class direction : std::uint8_t { forward, backward };

  /// Counts the needle as looked at and, when it is long, the memory of its table.
  searcher(runtime& rt, std::string_view needle, direction d = direction::forward);

  /// The first occurrence at `from` or behind; for `direction::forward`. npos when there is none.
  std::size_t find(std::string_view in, std::size_t from = 0) const;
  /// The last occurrence; for `direction::backward`. npos when there is none.
  std::size_t rfind(std::string_view in) const;

 private:
  std::string_view needle_;
  /// Of each prefix of the needle, read in its direction, the longest proper end that is a prefix too. Empty when the
  /// needle is short.
  std::vector<std::uint32_t> border_;
};

}  // namespace kvern::chat
