#include "model/tokenizer/merge_table.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <unordered_map>

namespace kvern {
namespace {

constexpr std::size_t most_merges = std::size_t{1} << 30;

/// Gives each string its symbol while the table is built.
class symbol_names {
 public:
  explicit symbol_names(const vocabulary& words) : words_(words) {}

  symbol_id of(std::string_view text) {
    if (const token_id id = words_.find_ordinary(text); id != no_token) return static_cast<symbol_id>(id);
    const auto next = static_cast<symbol_id>(static_cast<std::size_t>(words_.size()) + others_.size());
    return others_.try_emplace(std::string(text), next).first->second;
  }

 private:
  const vocabulary& words_;
  std::unordered_map<std::string, symbol_id> others_;
};

}  // namespace

merge_table::merge_table(const vocabulary& words, std::span<const std::string_view> merges,
                         std::span<const std::string_view> letters) {
  merges = merges.first(std::min(merges.size(), most_merges));
  symbol_names names(words);
  letters_.reserve(letters.size());
  for (const std::string_view letter : letters) letters_.push_back(names.of(letter));

  slots_.resize(std::bit_ceil(std::max<std::size_t>(merges.size() + merges.size() / 2, 2)));
  std::string joined;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view line = merges[rank];
    const std::size_t space = line.find(' ', 1);  // a symbol may begin with a space
    if (space == std::string_view::npos || space + 1 == line.size()) continue;
    const symbol_id left = names.of(line.substr(0, space));
    const symbol_id right = names.of(line.substr(space + 1));
    slot& found = slots_[place_of(left, right)];
    if (found.left != no_symbol) continue;
    joined.assign(line, 0, space).append(line.substr(space + 1));
    found = {left, right, {static_cast<std::uint32_t>(rank), names.of(joined)}};
  }
}

/// The slot that holds the pair, or the empty one where it would go.
std::size_t merge_table::place_of(symbol_id left, symbol_id right) const {
  std::uint64_t key = (std::uint64_t{left} << 32) | right;
  key = (key ^ (key >> 31)) * 0x9E3779B97F4A7C15U;
  key ^= key >> 32;
  const std::size_t mask = slots_.size() - 1;
  std::size_t place = key & mask;
  while (slots_[place].left != no_symbol && (slots_[place].left != left || slots_[place].right != right)) {
    place = (place + 1) & mask;
  }
  return place;
}

merge_table::merge merge_table::find(symbol_id left, symbol_id right) const {
  return slots_[place_of(left, right)].value;
}

}  // namespace kvern
