#include <algorithm>
#include <utility>

#include "model/chat/arguments.hpp"
#include "model/chat/format.hpp"
#include "model/chat/methods.hpp"
#include "model/chat/operators.hpp"
#include "model/chat/search.hpp"
#include "model/chat/string_ops.hpp"

namespace kvern::chat {
namespace {

val made(const val& self, const text& t) { return val::of(t, self.markup()); }

template <letter_case To>
val cased(runtime& rt, const val& self, arguments& args) {
  const bound none("str method", args, {});
  return made(self, with_case(rt, self.string(), To));
}

template <bool Left, bool Right>
val strip(runtime& rt, const val& self, arguments& args) {
  const bound b("strip", args, {"chars"});
  if (!b.set(0)) return made(self, stripped(rt, self.string(), nullptr, Left, Right));
  const text chars = b.string(0);
  return made(self, stripped(rt, self.string(), &chars, Left, Right));
}

template <bool FromRight>
val split_method(runtime& rt, const val& self, arguments& args) {
  const bound b("split", args, {"sep", "maxsplit"});
  text separator;
  if (b.set(0)) separator = b.string(0);
  const text* at = b.set(0) ? &separator : nullptr;
  const std::int64_t limit = b.integer(1, -1);
  return rt.list(FromRight ? split_from_right(rt, self.string(), at, limit) : split(rt, self.string(), at, limit));
}

val splitlines(runtime& rt, const val& self, arguments& args) {
  const bound b("splitlines", args, {"keepends"});
  return rt.list(split_lines(rt, self.string(), b.truth(0, false)));
}

/// The part of `self` that the arguments start and end delimit, as code points; null when start is past the end.
bool part(runtime& rt, const val& self, const bound& b, std::size_t start_at, text& out, std::size_t& first) {
  const text& t = self.string();
  if (!t.ascii()) rt.scan(3 * t.size());
  const auto n = static_cast<std::int64_t>(t.length());
  const auto clamp = [&](std::size_t i, std::int64_t fallback) {
    std::int64_t v = b.set(i) ? index_of(b[i]) : fallback;
    if (v < 0) v = std::max<std::int64_t>(v + n, 0);
    return v;
  };
  const std::int64_t start = clamp(start_at, 0);
  const std::int64_t end = std::min(clamp(start_at + 1, n), n);
  if (start > n || start > end) return false;
  first = static_cast<std::size_t>(start);
  const std::size_t from = t.offset_of(first);
  out = t.sub(from, t.offset_of(static_cast<std::size_t>(end)) - from);
  return true;
}

template <bool End>
val starts_or_ends(runtime& rt, const val& self, arguments& args) {
  const bound b(End ? "endswith" : "startswith", args, {"prefix", "start", "end"}, 1);
  text t;
  std::size_t first = 0;
  const bool inside = part(rt, self, b, 1, t, first);
  const auto fits = [&](const val& v) {
    if (v.is_undefined()) fail_use(v);
    if (!v.is_string()) fail_type("startswith and endswith need a string or a tuple of strings");
    rt.scan(v.string().size());
    return inside && (End ? t.view().ends_with(v.view()) : t.view().starts_with(v.view()));
  };
  if (!b[0].is(kind::tuple)) return val::of(fits(b[0]));
  for (const val& v : b[0].list().items) {
    if (fits(v)) return val::of(true);
  }
  return val::of(false);
}

/// Offset of the first or last occurrence, or npos.
template <bool Last>
std::size_t occurrence(runtime& rt, const text& t, const text& wanted) {
  if (Last) return searcher(rt, wanted.view(), searcher::direction::backward).rfind(t.view());
  return searcher(rt, wanted.view()).find(t.view());
}

/// Code point index of the first or last occurrence, or -1.
template <bool Last>
wide find_index(runtime& rt, const val& self, const bound& b) {
  text t;
  std::size_t first = 0;
  const text wanted = b.string(0);
  if (!part(rt, self, b, 1, t, first)) return -1;
  rt.scan(self.string().size());
  const std::size_t at = occurrence<Last>(rt, t, wanted);
  if (at == std::string_view::npos) return -1;
  return static_cast<wide>(first + t.sub(0, at).length());
}

template <bool Last>
val find(runtime& rt, const val& self, arguments& args) {
  return val::of(find_index<Last>(rt, self, bound("find", args, {"sub", "start", "end"}, 1)));
}

template <bool Last>
val index(runtime& rt, const val& self, arguments& args) {
  const wide i = find_index<Last>(rt, self, bound("index", args, {"sub", "start", "end"}, 1));
  if (i < 0) fail_type("substring not found");
  return val::of(i);
}

val count(runtime& rt, const val& self, arguments& args) {
  const bound b("count", args, {"sub", "start", "end"}, 1);
  const text wanted = b.string(0);
  text t;
  std::size_t first = 0;
  if (!part(rt, self, b, 1, t, first)) return val::of(wide{0});
  rt.scan(t.size());
  if (wanted.empty()) return val::of(t.length() + 1);
  wide n = 0;
  const std::string_view s = t.view();
  const searcher search(rt, wanted.view());
  for (std::size_t at = search.find(s); at != std::string_view::npos; at = search.find(s, at + wanted.size())) {
    ++n;
  }
  return val::of(n);
}

val replace(runtime& rt, const val& self, arguments& args) {
  const bound b("replace", args, {"old", "new", "count"}, 2);
  return made(self, replaced(rt, self.string(), b.string(0), b.string(1), b.integer(2, -1)));
}

val join_method(runtime& rt, const val& self, arguments& args) {
  const bound b("join", args, {"iterable"}, 1);
  const std::vector<val> items = elements(rt, b[0]);
  for (const val& item : items) {
    if (!item.is_string()) fail_type(std::string("join() needs strings, found ") + std::string(type_name(item)));
  }
  return made(self, join(rt, self.string(), items).string());
}

/// Every code point has a bit of `All`; for the case tests, one with `Some` and none with `Not`.
template <std::uint32_t All>
val every(runtime& rt, const val& self, arguments& args) {
  const bound none("str method", args, {});
  const std::string_view s = self.view();
  rt.scan(4 * s.size());
  for (std::size_t i = 0; i < s.size();) {
    const auto c = unicode::decode(s, i);
    if (!unicode::has(c.value, All)) return val::of(false);
    i += c.size;
  }
  return val::of(!s.empty() || All == unicode::printable);
}

template <std::uint32_t Some, std::uint32_t Not>
val all_cased(runtime& rt, const val& self, arguments& args) {
  const bound none("str method", args, {});
  const std::string_view s = self.view();
  rt.scan(4 * s.size());
  bool some = false;
  for (std::size_t i = 0; i < s.size();) {
    const auto c = unicode::decode(s, i);
    if (unicode::has(c.value, Not)) return val::of(false);
    some = some || unicode::has(c.value, Some);
    i += c.size;
  }
  return val::of(some);
}

val isascii(runtime& rt, const val& self, arguments& args) {
  const bound none("isascii", args, {});
  rt.scan(self.string().size());
  return val::of(unicode::ascii(self.view()));
}

val istitle(runtime& rt, const val& self, arguments& args) {
  const bound none("istitle", args, {});
  const std::string_view s = self.view();
  rt.scan(4 * s.size());
  bool some = false;
  bool after_cased = false;
  for (std::size_t i = 0; i < s.size();) {
    const auto c = unicode::decode(s, i);
    const bool up = unicode::has(c.value, unicode::upper | unicode::title);
    const bool low = unicode::has(c.value, unicode::lower);
    if ((up && after_cased) || (low && !after_cased)) return val::of(false);
    some = some || up || low;
    after_cased = up || low;
    i += c.size;
  }
  return val::of(some);
}

val isidentifier(runtime& rt, const val& self, arguments& args) {
  const bound none("isidentifier", args, {});
  const std::string_view s = self.view();
  rt.scan(4 * s.size());
  for (std::size_t i = 0; i < s.size();) {
    const auto c = unicode::decode(s, i);
    const bool letter = c.value == '_' || unicode::has(c.value, unicode::alpha);
    if (!letter && (i == 0 || !unicode::has(c.value, unicode::decimal))) return val::of(false);
    i += c.size;
  }
  return val::of(!s.empty());
}

/// center, ljust, rjust.
template <char Where>
val justify(runtime& rt, const val& self, arguments& args) {
  const bound b("justify", args, {"width", "fillchar"}, 1);
  text fill = rt.string_view(" ", true).string();
  if (b.has(1)) fill = b.string(1);
  if (length_of(rt, val::of(fill)) != 1) fail_type("the fill character must be exactly one character long");
  const auto n = static_cast<std::int64_t>(length_of(rt, self));
  const std::int64_t width = b.integer(0, 0);
  if (width <= n) return self;
  const std::int64_t pad = width - n;
  // CPython puts the odd one to the left when the width is odd.
  const std::int64_t left = Where == 'l' ? 0 : Where == 'r' ? pad : pad / 2 + (pad & width & 1);
  text_builder out(rt);
  out.add(repeated_fill(rt, fill, left));
  out.add(self.string());
  out.add(repeated_fill(rt, fill, pad - left));
  return out.finish(self.markup());
}

val zfill(runtime& rt, const val& self, arguments& args) {
  const bound b("zfill", args, {"width"}, 1);
  const text& t = self.string();
  const std::int64_t pad = b.integer(0, 0) - static_cast<std::int64_t>(length_of(rt, self));
  if (pad <= 0) return self;
  const std::size_t sign = !t.empty() && (t.view()[0] == '+' || t.view()[0] == '-') ? 1 : 0;
  text_builder out(rt);
  out.add(t.sub(0, sign));
  out.add(repeated_fill(rt, rt.string_view("0", true).string(), pad));
  out.add(t.from(sign));
  return out.finish(self.markup());
}

val expandtabs(runtime& rt, const val& self, arguments& args) {
  const bound b("expandtabs", args, {"tabsize"});
  const std::int64_t size = b.integer(0, 8);
  const text& t = self.string();
  const std::string_view s = t.view();
  const text space = rt.string_view(" ", true).string();
  rt.scan(8 * s.size());
  text_builder out(rt);
  std::int64_t column = 0;
  for (std::size_t i = 0; i < s.size();) {
    const auto c = unicode::decode(s, i);
    if (c.value == '\t') {
      const std::int64_t pad = size > 0 ? size - column % size : 0;
      out.add(repeated_fill(rt, space, pad));
      column += pad;
    } else {
      out.add(t.sub(i, c.size));
      column = c.value == '\n' || c.value == '\r' ? 0 : column + 1;
    }
    i += c.size;
  }
  return out.finish(self.markup());
}

template <bool Right>
val partition(runtime& rt, const val& self, arguments& args) {
  const bound b("partition", args, {"sep"}, 1);
  const text separator = b.string(0);
  if (separator.empty()) fail_type("empty separator");
  const text& t = self.string();
  rt.scan(t.size());
  const std::size_t at = occurrence<Right>(rt, t, separator);
  const val none = val::of(text());
  if (at == std::string_view::npos) {
    return Right ? rt.tuple({none, none, self}) : rt.tuple({self, none, none});
  }
  const std::size_t end = at + separator.size();
  return rt.tuple({val::of(t.sub(0, at)), val::of(t.sub(at, separator.size())), val::of(t.from(end))});
}

template <bool Suffix>
val remove_affix(runtime& rt, const val& self, arguments& args) {
  const bound b(Suffix ? "removesuffix" : "removeprefix", args, {"affix"}, 1);
  const text affix = b.string(0);
  rt.scan(affix.size());
  const text& t = self.string();
  if (Suffix) return t.view().ends_with(affix.view()) ? made(self, t.sub(0, t.size() - affix.size())) : self;
  return t.view().starts_with(affix.view()) ? made(self, t.from(affix.size())) : self;
}

val format(runtime& rt, const val& self, arguments& args) { return format_braces(rt, self.string(), args); }

val format_map(runtime& rt, const val& self, arguments& args) {
  const bound b("format_map", args, {"mapping"}, 1);
  if (!b[0].is(kind::dict)) fail_type("format_map() needs a mapping");
  arguments named;
  for (const auto& [key, value] : b[0].dict().items) {
    rt.step();
    rt.memory(sizeof(named.named[0]) + (key.is_string() ? key.view().size() : 0));
    if (key.is_string()) named.named.emplace_back(std::string(key.view()), value);
  }
  return format_braces(rt, self.string(), named);
}

using unicode::alpha;
using unicode::decimal;
using unicode::digit;
using unicode::numeric;

constexpr std::pair<std::string_view, function_node::pointer> methods[] = {
    {"capitalize", cased<letter_case::capitalize>},
    {"center", justify<'c'>},
    {"count", count},
    {"endswith", starts_or_ends<true>},
    {"expandtabs", expandtabs},
    {"find", find<false>},
    {"format", format},
    {"format_map", format_map},
    {"index", index<false>},
    {"isalnum", every<alpha | decimal | digit | numeric>},
    {"isalpha", every<alpha>},
    {"isascii", isascii},
    {"isdecimal", every<decimal>},
    {"isdigit", every<digit>},
    {"isidentifier", isidentifier},
    {"islower", all_cased<unicode::lower, unicode::upper | unicode::title>},
    {"isnumeric", every<numeric>},
    {"isprintable", every<unicode::printable>},
    {"isspace", every<unicode::space>},
    {"istitle", istitle},
    {"isupper", all_cased<unicode::upper, unicode::lower | unicode::title>},
    {"join", join_method},
    {"ljust", justify<'l'>},
    {"lower", cased<letter_case::lower>},
    {"lstrip", strip<true, false>},
    {"partition", partition<false>},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"replace", replace},
    {"rfind", find<true>},
    {"rindex", index<true>},
    {"rjust", justify<'r'>},
    {"rpartition", partition<true>},
    {"rsplit", split_method<true>},
    {"rstrip", strip<false, true>},
    {"split", split_method<false>},
    {"splitlines", splitlines},
    {"startswith", starts_or_ends<false>},
    {"strip", strip<true, true>},
    {"swapcase", cased<letter_case::swap>},
    {"title", cased<letter_case::title>},
    {"upper", cased<letter_case::upper>},
    {"zfill", zfill},
};

}  // namespace

function_node::pointer find_string_method(std::string_view name) {
  const auto* it = std::lower_bound(std::begin(methods), std::end(methods), name,
                                    [](const auto& m, std::string_view n) { return m.first < n; });
  return it != std::end(methods) && it->first == name ? it->second : nullptr;
}

}  // namespace kvern::chat
