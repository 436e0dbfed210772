#include "model/chat/search.hpp"

namespace kvern::chat {
namespace {

/// Up to this size the standard library's search is faster, and its worst case bounded by it.
constexpr std::size_t short_needle = 64;

/// Bytes of the needle that match before `next` is read and after.
template <class At>
std::uint32_t advanced(const std::vector<std::uint32_t>& border, std::uint32_t matched, char next, At at) {
  while (matched > 0 && (matched == border.size() || at(matched) != next)) matched = border[matched - 1];
  return at(matched) == next ? matched + 1 : matched;
}

template <class At>
void fill_border(std::vector<std::uint32_t>& border, std::size_t size, At at) {
  border.reserve(size);
  border.push_back(0);
  for (std::size_t i = 1; i < size; ++i) border.push_back(advanced(border, border.back(), at(i), at));
}

}  // namespace

searcher::searcher(runtime& rt, std::string_view needle, direction d) : needle_(needle) {
  rt.scan(needle.size());
  const std::size_t size = needle.size();
  if (size <= short_needle) return;
  rt.memory(size * sizeof(border_[0]));
  if (d == direction::forward)
    fill_border(border_, size, [needle](std::size_t i) { return needle[i]; });
  else
    fill_border(border_, size, [needle, size](std::size_t i) { return needle[size - 1 - i]; });
}

std::size_t searcher::find(std::string_view in, std::size_t from) const {
  if (border_.empty()) return in.find(needle_, from);
  std::uint32_t matched = 0;
  for (std::size_t i = from; i < in.size(); ++i) {
    matched = advanced(border_, matched, in[i], [this](std::size_t n) { return needle_[n]; });
    if (matched == border_.size()) return i + 1 - matched;
  }
  return std::string_view::npos;
}

std::size_t searcher::rfind(std::string_view in) const {
  if (border_.empty()) return in.rfind(needle_);
  std::uint32_t matched = 0;
  for (std::size_t i = in.size(); i-- > 0;) {
    matched = advanced(border_, matched, in[i], [this](std::size_t n) { return needle_[needle_.size() - 1 - n]; });
    if (matched == border_.size()) return i;
  }
  return std::string_view::npos;
}

}  // namespace kvern::chat
