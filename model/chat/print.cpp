#include "model/chat/print.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "model/chat/operators.hpp"
#include "model/chat/unicode.hpp"

namespace kvern::chat {
namespace {

void repr_string(text_builder& out, std::string_view s) {
  const bool single = s.find('\'') != std::string_view::npos;
  const char quote = single && s.find('"') == std::string_view::npos ? '"' : '\'';
  std::string made(1, quote);
  for (std::size_t i = 0; i < s.size();) {
    const auto c = unicode::decode(s, i);
    if (c.value == static_cast<char32_t>(quote) || c.value == '\\') {
      made.push_back('\\');
      made.push_back(static_cast<char>(c.value));
    } else if (c.value == '\n') {
      made += "\\n";
    } else if (c.value == '\r') {
      made += "\\r";
    } else if (c.value == '\t') {
      made += "\\t";
    } else if ((c.value >= 0x20 && c.value < 0x7F) || unicode::has(c.value, unicode::printable)) {
      made.append(s.substr(i, c.size));
    } else {
      const auto value = static_cast<std::uint32_t>(c.well_formed ? c.value : c.value - 0x110000);
      made += value < 0x100     ? fmt::format("\\x{:02x}", value)
              : value < 0x10000 ? fmt::format("\\u{:04x}", value)
                                : fmt::format("\\U{:08x}", value);
    }
    i += c.size;
    if (made.size() > 4096) {
      out.add(made, false);
      made.clear();
    }
  }
  made.push_back(quote);
  out.add(made, false);
}

void repr_into(runtime& rt, text_builder& out, const val& v);

void repr_items(runtime& rt, text_builder& out, const std::vector<val>& items) {
  bool first = true;
  for (const val& item : items) {
    if (!first) out.add(", ", false);
    first = false;
    repr_into(rt, out, item);
  }
}

void repr_pairs(runtime& rt, text_builder& out, const std::vector<std::pair<val, val>>& items) {
  out.add("{", false);
  bool first = true;
  for (const auto& [key, value] : items) {
    if (!first) out.add(", ", false);
    first = false;
    repr_into(rt, out, key);
    out.add(": ", false);
    repr_into(rt, out, value);
  }
  out.add("}", false);
}

void repr_object(runtime& rt, text_builder& out, const val& v) {
  if (const auto* ns = dynamic_cast<const namespace_node*>(&v.object())) {
    out.add("<Namespace {", false);
    bool first = true;
    for (const auto& [key, value] : ns->items) {
      if (!first) out.add(", ", false);
      first = false;
      repr_string(out, key);
      out.add(": ", false);
      repr_into(rt, out, value);
    }
    out.add("}>", false);
    return;
  }
  out.add(fmt::format("<{}>", v.object().type_name()), false);
}

void repr_into(runtime& rt, text_builder& out, const val& v) {
  rt.step();
  const runtime::nesting level(rt);
  switch (v.type()) {
    case kind::undefined:
      out.add("Undefined", false);
      return;
    case kind::none:
      out.add("None", false);
      return;
    case kind::boolean:
      out.add(v.boolean() ? "True" : "False", false);
      return;
    case kind::integer:
      out.add(integer_repr(v.integer()), false);
      return;
    case kind::real:
      out.add(real_repr(v.real()), false);
      return;
    case kind::string:
      rt.scan(v.string().size());
      if (v.markup()) out.add("Markup(", false);
      repr_string(out, v.view());
      if (v.markup()) out.add(")", false);
      return;
    case kind::list:
      out.add("[", false);
      repr_items(rt, out, v.list().items);
      out.add("]", false);
      return;
    case kind::tuple:
      out.add("(", false);
      repr_items(rt, out, v.list().items);
      out.add(v.list().items.size() == 1 ? ",)" : ")", false);
      return;
    case kind::view:
      out.add(type_name(v), false);
      out.add("([", false);
      repr_items(rt, out, v.list().items);
      out.add("])", false);
      return;
    case kind::dict:
      repr_pairs(rt, out, v.dict().items);
      return;
    case kind::range: {
      const range_node& r = v.range();
      out.add(r.step == 1
                  ? fmt::format("range({}, {})", integer_repr(r.start), integer_repr(r.stop))
                  : fmt::format("range({}, {}, {})", integer_repr(r.start), integer_repr(r.stop), integer_repr(r.step)),
              false);
      return;
    }
    case kind::iterator:
      out.add("<generator object>", false);
      return;
    case kind::instance:
      repr_object(rt, out, v);
      return;
  }
}

}  // namespace

val str_of(runtime& rt, const val& v) {
  if (v.is_string()) return v;
  if (v.is_undefined()) return val::of(text());
  return repr_of(rt, v);
}

val repr_of(runtime& rt, const val& v) {
  text_builder out(rt);
  repr_into(rt, out, v);
  return out.finish();
}

std::string real_repr(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto [end, problem] = std::to_chars(buffer, buffer + sizeof buffer, d, std::chars_format::scientific);
  const std::string_view s(buffer, static_cast<std::size_t>(end - buffer));
  const std::size_t e = s.find('e');
  std::string digits;
  const bool minus = s[0] == '-';
  for (const char c : s.substr(0, e)) {
    if (c >= '0' && c <= '9') digits.push_back(c);
  }
  int exponent = 0;
  const char* from = s.data() + e + 1;
  std::from_chars(*from == '+' ? from + 1 : from, s.data() + s.size(), exponent);
  std::string out = minus ? "-" : "";
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (count > 1) out += "." + digits.substr(1);
    out += fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  } else if (exponent < 0) {
    out += "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  } else if (count <= exponent + 1) {
    out += digits + std::string(static_cast<std::size_t>(exponent + 1 - count), '0') + ".0";
  } else {
    const auto point = static_cast<std::size_t>(exponent + 1);
    out += digits.substr(0, point) + "." + digits.substr(point);
  }
  return out;
}

std::string integer_repr(wide i) {
  const bool minus = i < 0;
  auto u = minus ? -static_cast<unsigned __int128>(i) : static_cast<unsigned __int128>(i);
  std::string out;
  do {
    out.push_back(static_cast<char>('0' + static_cast<int>(u % 10)));
    u /= 10;
  } while (u != 0);
  if (minus) out.push_back('-');
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace kvern::chat
