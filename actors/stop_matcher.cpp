#include "actors/stop_matcher.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace kvern::actors {
namespace {

std::vector<std::uint32_t> borders(std::string_view text) {
  std::vector<std::uint32_t> border(text.size(), 0);
  std::uint32_t length = 0;
  for (std::size_t i = 1; i < text.size(); ++i) {
    while (length > 0 && text[i] != text[length]) length = border[length - 1];
    if (text[i] == text[length]) ++length;
    border[i] = length;
  }
  return border;
}

bool begins_inside_a_character(std::string_view text) {
  return (static_cast<unsigned char>(text.front()) & 0xC0u) == 0x80u;
}

}  // namespace

result<stop_matcher> stop_matcher::create(std::vector<std::string> stops) {
  if (stops.size() > max_strings) {
    return fail("invalid_request",
                fmt::format("There are {} stop strings; give at most {}.", stops.size(), max_strings));
  }
  stop_matcher made;
  made.patterns_.reserve(stops.size());
  for (auto& stop : stops) {
    if (stop.empty()) return fail("invalid_request", "A stop string is empty; leave it out.");
    if (stop.size() > max_bytes) {
      return fail("invalid_request",
                  fmt::format("A stop string has {} bytes; it may have at most {}.", stop.size(), max_bytes));
    }
    if (begins_inside_a_character(stop)) {
      return fail("invalid_request", "A stop string begins inside a UTF-8 character; give whole characters.");
    }
    auto fallback = borders(stop);
    made.patterns_.push_back({std::move(stop), std::move(fallback), 0});
  }
  return made;
}

void stop_matcher::advance(pattern& p, char byte) {
  while (p.matched > 0 && p.text[p.matched] != byte) p.matched = p.fallback[p.matched - 1];
  if (p.text[p.matched] == byte) ++p.matched;
}

std::string stop_matcher::push(std::string_view text) {
  if (met_) return {};
  if (patterns_.empty()) return std::string(text);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const pattern* longest = nullptr;
    for (auto& p : patterns_) {
      advance(p, text[i]);
      const bool complete = p.matched == p.text.size();
      if (complete && (!longest || p.text.size() > longest->text.size())) longest = &p;
    }
    if (!longest) continue;
    met_ = longest->text;
    held_.append(text.substr(0, i + 1));
    auto before = take(held() - longest->text.size());
    held_.clear();
    start_ = 0;
    return before;
  }
  held_.append(text);
  std::size_t possible = 0;
  for (const auto& p : patterns_) possible = std::max<std::size_t>(possible, p.matched);
  return take(held() - possible);
}

std::string stop_matcher::finish() { return met_ ? std::string() : take(held()); }

std::string stop_matcher::take(std::size_t bytes) {
  auto taken = held_.substr(start_, bytes);
  start_ += bytes;
  // Moving the rest to the front only when it is the smaller part keeps the work linear.
  if (start_ * 2 >= held_.size()) {
    held_.erase(0, start_);
    start_ = 0;
  }
  return taken;
}

}  // namespace kvern::actors
