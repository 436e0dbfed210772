#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "model/chat/format.hpp"
#include "model/chat/operators.hpp"
#include "model/chat/print.hpp"
#include "model/chat/unicode.hpp"

namespace kvern::chat {
namespace {

constexpr std::size_t max_width = 1u << 24;
constexpr int max_precision = 4096;

bool digit(char c) { return c >= '0' && c <= '9'; }

std::size_t read_number(std::string_view s, std::size_t& at) {
  std::size_t v = 0;
  for (; at < s.size() && digit(s[at]); ++at) {
    v = v * 10 + static_cast<std::size_t>(s[at] - '0');
    if (v > max_width) fail_limit("a format's width or precision is too large");
  }
  return v;
}

std::string grouped(std::string_view digits, char mark, std::size_t every) {
  const std::size_t point = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  std::string out;
  out.reserve(digits.size() + point / every);
  for (std::size_t i = 0; i < point; ++i) {
    if (i > 0 && (point - i) % every == 0) out.push_back(mark);
    out.push_back(digits[i]);
  }
  return out.append(digits.substr(point));
}

std::string sign_of(bool minus, char sign) { return minus ? "-" : sign == '-' ? "" : std::string(1, sign); }

/// Digits in groups, after zeros that fill the width when the spec asks for them.
std::string filled(std::string head, std::string digits, const format_spec& spec, std::size_t every) {
  const auto in_groups = [&](const std::string& d) {
    return spec.grouping == '\0' ? d : grouped(d, spec.grouping, every);
  };
  std::string body = in_groups(digits);
  if (spec.align == '=' && spec.fill == "0") {
    const std::size_t wanted = spec.width > head.size() ? spec.width - head.size() : 0;
    if (body.size() < wanted) {
      const std::size_t missing = wanted - body.size();
      // Every `every` zeros bring a mark along.
      digits.insert(0, spec.grouping == '\0' ? missing : missing * every / (every + 1), '0');
      for (body = in_groups(digits); body.size() < wanted; body = in_groups(digits)) digits.insert(0, 1, '0');
    }
  }
  return head + body;
}

std::string print_real(double v, char how, int precision, bool alternate) {
  const std::array<char, 6> pattern = alternate ? std::array<char, 6>{'%', '#', '.', '*', how, '\0'}
                                                : std::array<char, 6>{'%', '.', '*', how, '\0', '\0'};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  const int n = std::snprintf(nullptr, 0, pattern.data(), precision, v);
  std::string out(static_cast<std::size_t>(n) + 1, '\0');
  std::snprintf(out.data(), out.size(), pattern.data(), precision, v);
#pragma GCC diagnostic pop
  out.pop_back();
  return out;
}

}  // namespace

format_spec parse_spec(std::string_view spec) {
  format_spec out;
  std::size_t at = 0;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '=' || c == '^'; };
  if (!spec.empty()) {
    const auto first = unicode::decode(spec, 0);
    if (spec.size() > first.size && is_align(spec[first.size])) {
      out.fill = std::string(spec.substr(0, first.size));
      out.align = spec[first.size];
      at = first.size + 1u;
    } else if (is_align(spec[0])) {
      out.align = spec[at++];
    }
  }
  const auto peek = [&] { return at < spec.size() ? spec[at] : '\0'; };
  if (peek() == '+' || peek() == '-' || peek() == ' ') out.sign = spec[at++];
  if (peek() == '#') {
    out.alternate = true;
    ++at;
  }
  if (peek() == '0') {
    if (out.align == '\0') {
      out.fill = "0";
      out.align = '=';
    }
    ++at;
  }
  out.width = read_number(spec, at);
  if (peek() == ',' || peek() == '_') out.grouping = spec[at++];
  if (peek() == '.') {
    ++at;
    if (!digit(peek())) fail_type("a format specification misses its precision");
    const std::size_t precision = read_number(spec, at);
    if (precision > static_cast<std::size_t>(max_precision)) fail_limit("a format's precision is too large");
    out.precision = static_cast<int>(precision);
  }
  if (at < spec.size()) out.type = spec[at++];
  if (at != spec.size()) fail_type("invalid format specification");
  return out;
}

std::string format_integer(wide v, const format_spec& spec) {
  const bool minus = v < 0;
  auto u = minus ? -static_cast<unsigned __int128>(v) : static_cast<unsigned __int128>(v);
  const char low = static_cast<char>(spec.type | 0x20);
  const unsigned base = low == 'x' ? 16 : low == 'o' ? 8 : low == 'b' ? 2 : 10;
  const char* const alphabet = spec.type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string digits;
  do {
    digits.push_back(alphabet[static_cast<unsigned>(u % base)]);
    u /= base;
  } while (u != 0);
  if (static_cast<int>(digits.size()) < spec.precision) {
    digits.append(static_cast<std::size_t>(spec.precision) - digits.size(), '0');
  }
  std::reverse(digits.begin(), digits.end());
  std::string head = sign_of(minus, spec.sign);
  if (spec.alternate && base != 10) head += std::string("0") + spec.type;
  return filled(std::move(head), std::move(digits), spec, base == 10 ? 3 : 4);
}

std::string format_real(double v, const format_spec& spec) {
  const bool minus = std::signbit(v) && !std::isnan(v);
  const double size = std::fabs(v);
  std::string digits;
  if (!std::isfinite(v)) {
    digits = std::isnan(v) ? "nan" : "inf";
    if (spec.type == 'F' || spec.type == 'E' || spec.type == 'G') {
      for (char& c : digits) c = static_cast<char>(c - 32);
    }
  } else if (spec.type == '\0' && spec.precision < 0) {
    digits = real_repr(size);
  } else if (spec.type == '\0') {
    digits = print_real(size, 'g', spec.precision == 0 ? 1 : spec.precision, spec.alternate);
    if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  } else if (spec.type == '%') {
    digits = print_real(size * 100, 'f', spec.precision < 0 ? 6 : spec.precision, spec.alternate) + "%";
  } else {
    const char how = spec.type == 'n' ? 'g' : spec.type;
    digits = print_real(size, how, spec.precision < 0 ? 6 : spec.precision, spec.alternate);
  }
  return filled(sign_of(minus, spec.sign), std::move(digits), spec, 3);
}

namespace {

void add_padded(runtime& rt, text_builder& out, const text& t, const format_spec& spec, char usual) {
  const std::size_t n = t.length();
  const std::size_t pad = spec.width > n ? spec.width - n : 0;
  const char align = spec.align == '\0' ? usual : spec.align;
  const std::size_t left = align == '<' ? 0 : align == '^' ? pad / 2 : pad;
  const auto fill = [&](std::size_t count) {
    if (count != 0) out.add_repeated(rt.string(spec.fill).string(), count);
  };
  fill(left);
  out.add(t);
  fill(pad - left);
}

}  // namespace

void add_formatted(runtime& rt, text_builder& out, const val& v, const format_spec& spec) {
  rt.step();
  const bool integer_type = spec.type != '\0' && std::string_view("bcdoxXn").find(spec.type) != std::string_view::npos;
  const bool real_type = spec.type != '\0' && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos;
  const bool plain = spec.width == 0 && spec.precision < 0 && spec.type == '\0' && spec.align == '\0';
  if (v.is(kind::integer) || (v.is(kind::boolean) && !plain)) {
    if (real_type) {
      return add_padded(rt, out, rt.string(format_real(v.as_real(), spec)).string(), spec, '>');
    }
    if (spec.type != '\0' && !integer_type) fail_type("unknown format code for an integer");
    if (spec.precision >= 0) fail_type("a precision is not allowed in an integer's format");
    if (spec.type == 'c') {
      if (v.integer() < 0 || v.integer() > 0x10FFFF) fail_type("a character code is out of range");
      std::string made;
      unicode::append(made, static_cast<char32_t>(v.integer()));
      return add_padded(rt, out, rt.string(std::move(made)).string(), spec, '<');
    }
    return add_padded(rt, out, rt.string(format_integer(v.integer(), spec)).string(), spec, '>');
  }
  if (v.is(kind::real)) {
    if (spec.type != '\0' && !real_type && spec.type != 'n') fail_type("unknown format code for a float");
    return add_padded(rt, out, rt.string(format_real(v.real(), spec)).string(), spec, '>');
  }
  if (!v.is_string() && !plain) fail_type(fmt::format("unsupported format for {}", type_name(v)));
  if (spec.type != '\0' && spec.type != 's') fail_type("unknown format code for a string");
  if (spec.align == '=') fail_type("'=' alignment is not allowed for a string");
  text t = str_of(rt, v).string();
  if (spec.precision >= 0) t = t.sub(0, t.offset_of(static_cast<std::size_t>(spec.precision)));
  add_padded(rt, out, t, spec, '<');
}

}  // namespace kvern::chat
