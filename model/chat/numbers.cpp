#include "model/chat/numbers.hpp"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "model/chat/unicode.hpp"

namespace kvern::chat {
namespace {

/// Without white space around, digits of every script as ASCII.
std::string plain(std::string_view s) {
  std::string out;
  for (std::size_t i = 0; i < s.size();) {
    const auto c = unicode::decode(s, i);
    const int digit = unicode::decimal_value(c.value);
    if (digit >= 0) {
      out.push_back(static_cast<char>('0' + digit));
    } else if (unicode::has(c.value, unicode::space)) {
      out.push_back(' ');
    } else {
      out.append(s.substr(i, c.size));
    }
    i += c.size;
  }
  const std::size_t from = out.find_first_not_of(' ');
  if (from == std::string::npos) return {};
  return out.substr(from, out.find_last_not_of(' ') - from + 1);
}

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char low = static_cast<char>(c | 0x20);
  return low >= 'a' && low <= 'z' ? low - 'a' + 10 : 99;
}

}  // namespace

std::optional<wide> parse_integer(std::string_view given, int base) {
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  const std::string s = plain(given);
  std::size_t at = 0;
  bool minus = false;
  if (at < s.size() && (s[at] == '+' || s[at] == '-')) minus = s[at++] == '-';
  const char mark = at + 1 < s.size() && s[at] == '0' ? static_cast<char>(s[at + 1] | 0x20) : '\0';
  const int marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
  bool underscore = false;
  if (marked != 0 && (base == 0 || base == marked)) {
    base = marked;
    at += 2;
    underscore = true;
  }
  const bool automatic = base == 0;
  if (automatic) base = 10;
  if (at >= s.size()) return std::nullopt;
  const bool leading_zero = s[at] == '0';
  wide v = 0;
  bool any = false;
  for (; at < s.size(); ++at) {
    if (s[at] == '_') {
      if (!underscore) return std::nullopt;
      underscore = false;
      continue;
    }
    const int d = digit_of(s[at]);
    if (d >= base) return std::nullopt;
    if (__builtin_mul_overflow(v, static_cast<wide>(base), &v) || __builtin_add_overflow(v, static_cast<wide>(d), &v)) {
      fail_limit("an integer of the chat template grows beyond 127 bits");
    }
    any = true;
    underscore = true;
  }
  if (!any || s.back() == '_' || (automatic && leading_zero && v != 0)) return std::nullopt;
  return minus ? -v : v;
}

std::optional<double> parse_real(std::string_view given) {
  const std::string s = plain(given);
  std::string digits;
  for (std::size_t i = 0; i < s.size(); ++i) {
    if (s[i] != '_') {
      digits.push_back(s[i]);
      continue;
    }
    const bool between =
        i > 0 && i + 1 < s.size() && s[i - 1] >= '0' && s[i - 1] <= '9' && s[i + 1] >= '0' && s[i + 1] <= '9';
    if (!between) return std::nullopt;
  }
  const char* from = digits.data();
  const char* end = from + digits.size();
  if (from != end && *from == '+') {
    ++from;
    if (from != end && (*from == '-' || *from == '+')) return std::nullopt;
  }
  double v = 0;
  const auto [stop, problem] = std::from_chars(from, end, v);
  if (stop != end || from == end || digits.find('(') != std::string::npos) return std::nullopt;
  if (problem == std::errc::result_out_of_range) return std::strtod(from, nullptr);
  if (problem != std::errc()) return std::nullopt;
  return v;
}

std::optional<double> to_real(const val& v) {
  if (v.is_undefined()) fail_use(v);
  if (v.is_number()) return v.as_real();
  return v.is_string() ? parse_real(v.view()) : std::nullopt;
}

double round_real(double d, int digits) {
  if (!std::isfinite(d) || digits > 330) return d;
  if (digits < -310) return std::copysign(0.0, d);
  if (digits >= 0) {
    // printf rounds the exact value, ties to even, which is what Python's round gives.
    char buffer[700];
    std::snprintf(buffer, sizeof buffer, "%.*f", digits, d);
    return std::strtod(buffer, nullptr);
  }
  const double unit = std::pow(10.0, -digits);
  return std::nearbyint(d / unit) * unit;
}

}  // namespace kvern::chat
