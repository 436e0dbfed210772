#include "model/tokenizer/special_matcher.hpp"

#include <algorithm>
#include <utility>

namespace kvern {
namespace {

bool is_special(token_kind kind) {
  return kind == token_kind::control || kind == token_kind::unknown || kind == token_kind::user_defined;
}

/// White space as C's isspace has it.
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/// The end of the trusted range that holds `at`, or `at` itself. Asked with rising `at`, `next` walks along.
std::size_t trusted_until(std::span<const byte_range> trusted, std::size_t at, std::size_t& next) {
  while (next < trusted.size() && trusted[next].end <= at) ++next;
  return next < trusted.size() && trusted[next].begin <= at ? trusted[next].end : at;
}

}  // namespace

special_matcher::special_matcher(const vocabulary& words, std::vector<token_id> right_strip)
    : words_(words), right_strip_(std::move(right_strip)) {
  for (token_id id = 0; id < words.size(); ++id) {
    // Of equal texts only the one that a look-up yields.
    if (is_special(words.kind(id)) && words.find(words.text(id)) == id) by_text_.push_back(id);
  }
  std::ranges::sort(by_text_, {}, [&](token_id id) { return words.text(id); });
  std::ranges::sort(right_strip_);
  std::size_t i = 0;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    first_[byte] = static_cast<std::uint32_t>(i);
    while (i < by_text_.size() && static_cast<unsigned char>(words.text(by_text_[i])[0]) == byte) ++i;
  }
  first_[256] = static_cast<std::uint32_t>(i);
}

/// The longest special token at `begin` of at most `limit` bytes, or no_token. Narrows the sorted texts byte by byte.
token_id special_matcher::longest_at(std::string_view text, std::size_t begin, std::size_t limit,
                                     std::size_t trusted_end) const {
  const auto byte_at = [&](token_id id, std::size_t depth) {
    const std::string_view own = words_.text(id);
    return depth < own.size() ? static_cast<int>(static_cast<unsigned char>(own[depth])) : -1;
  };
  const auto first = static_cast<unsigned char>(text[begin]);
  std::span<const token_id> range =
      std::span(by_text_).subspan(first_[first], first_[first + std::size_t{1}] - first_[first]);
  limit = std::min(limit, text.size() - begin);
  token_id best = no_token;
  for (std::size_t depth = 1; !range.empty() && depth <= limit; ++depth) {
    const token_id shortest = range.front();
    if (words_.text(shortest).size() == depth) {
      if (words_.kind(shortest) == token_kind::user_defined || begin + depth <= trusted_end) best = shortest;
      range = range.subspan(1);
    }
    if (depth == limit) break;
    const int wanted = static_cast<unsigned char>(text[begin + depth]);
    const auto same = std::ranges::equal_range(range, wanted, {}, [&](token_id id) { return byte_at(id, depth); });
    range = std::span<const token_id>(same.begin(), same.end());
  }
  return best;
}

std::vector<special_match> special_matcher::find(std::string_view text, std::span<const byte_range> trusted) const {
  std::vector<candidate> waiting;
  std::size_t next_trusted = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (first_[byte] == first_[byte + std::size_t{1}]) continue;
    const token_id id = longest_at(text, at, text.size(), trusted_until(trusted, at, next_trusted));
    if (id != no_token) waiting.push_back({at, id});
  }
  if (waiting.empty()) return {};

  // A heap by falling length, then rising place.
  const auto later = [&](const candidate& a, const candidate& b) {
    const std::size_t x = words_.text(a.id).size();
    const std::size_t y = words_.text(b.id).size();
    return x != y ? x < y : a.begin > b.begin;
  };
  std::ranges::make_heap(waiting, later);
  std::vector<bool> taken(text.size());
  std::vector<special_match> matches;
  while (!waiting.empty()) {
    std::ranges::pop_heap(waiting, later);
    const candidate now = waiting.back();
    waiting.pop_back();
    if (taken[now.begin]) continue;
    const std::size_t end = now.begin + words_.text(now.id).size();
    // What is taken already is no shorter than this match, so if the two overlap, an end of this one is taken.
    if (taken[end - 1]) {
      std::size_t room = 0;
      while (!taken[now.begin + room]) ++room;
      const auto* range = std::ranges::upper_bound(trusted, now.begin, {}, &byte_range::end).base();
      auto from = static_cast<std::size_t>(range - trusted.data());
      const token_id shorter = longest_at(text, now.begin, room, trusted_until(trusted, now.begin, from));
      if (shorter != no_token) {
        waiting.push_back({now.begin, shorter});
        std::ranges::push_heap(waiting, later);
      }
      continue;
    }
    std::size_t stop = end;
    if (std::ranges::binary_search(right_strip_, now.id)) {
      while (stop < text.size() && !taken[stop] && is_space(text[stop])) ++stop;
    }
    std::fill(taken.begin() + static_cast<std::ptrdiff_t>(now.begin), taken.begin() + static_cast<std::ptrdiff_t>(stop),
              true);
    matches.push_back({now.begin, stop, now.id});
  }
  std::ranges::sort(matches, {}, &special_match::begin);
  return matches;
}

}  // namespace kvern
