#include <algorithm>
#include <array>

#include "model/chat/arguments.hpp"
#include "model/chat/builtins.hpp"
#include "model/chat/format.hpp"
#include "model/chat/json.hpp"
#include "model/chat/markup.hpp"
#include "model/chat/operators.hpp"
#include "model/chat/print.hpp"
#include "model/chat/string_ops.hpp"

namespace kvern::chat {
namespace {

text shown(runtime& rt, const val& v) {
  if (v.is_undefined() && v.why().security) fail_use(v);
  return str_of(rt, v).string();
}

template <letter_case To>
val cased(runtime& rt, const val& v, arguments& args) {
  const bound none("filter", args, {});
  return val::of(with_case(rt, shown(rt, v), To), v.is_string() && v.markup());
}

/// Words begin after white space, '-' and opening brackets; unlike str.title, not after apostrophes or digits.
val title(runtime& rt, const val& v, arguments& args) {
  const bound none("title", args, {});
  const text t = shown(rt, v);
  rt.scan(4 * t.size());
  const std::string_view s = t.view();
  trust_cursor trust(t);
  text_builder out(rt);
  std::string made;
  bool first = true;
  bool made_trust = false;
  // A word's rest is lowered on its own: the final sigma looks no further.
  const auto breaks = [](char32_t c) {
    return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || unicode::has(c, unicode::space);
  };
  std::size_t rest = 0;
  std::size_t word_end = 0;
  for (std::size_t i = 0; i < s.size();) {
    const auto c = unicode::decode(s, i);
    const bool trusted = trust.at(i);
    if (trusted != made_trust || made.size() > 4096) {
      out.add(made, made_trust);
      made.clear();
      made_trust = trusted;
    }
    if (breaks(c.value)) {
      made.append(s.substr(i, c.size));
      first = true;
    } else if (first) {
      for (word_end = i; word_end < s.size();) {
        const auto w = unicode::decode(s, word_end);
        if (breaks(w.value)) break;
        word_end += w.size;
      }
      unicode::append_mapped(made, c.value, unicode::mapping::upper);
      first = false;
      rest = i + c.size;
    } else {
      unicode::append_lower_at(made, s.substr(rest, word_end - rest), i - rest, c);
    }
    i += c.size;
  }
  out.add(made, made_trust);
  return out.finish();
}

val trim(runtime& rt, const val& v, arguments& args) {
  const bound b("trim", args, {"chars"});
  const text t = shown(rt, v);
  const bool markup = v.is_string() && v.markup();
  if (!b.set(0)) return val::of(stripped(rt, t, nullptr, true, true), markup);
  const text chars = b.string(0);
  return val::of(stripped(rt, t, &chars, true, true), markup);
}

val replace(runtime& rt, const val& v, arguments& args) {
  const bound b("replace", args, {"old", "new", "count"}, 2);
  return val::of(
      replaced(rt, shown(rt, v), shown(rt, b[0]), shown(rt, b[1]), b.set(2) ? b.integer(2, -1) : std::int64_t{-1}));
}

val string(runtime& rt, const val& v, arguments& args) {
  const bound none("string", args, {});
  return v.is_string() ? v : val::of(shown(rt, v));
}

val escape(runtime& rt, const val& v, arguments& args) {
  const bound none("escape", args, {});
  return escaped(rt, v);
}

val forceescape(runtime& rt, const val& v, arguments& args) {
  const bound none("forceescape", args, {});
  return escaped(rt, v, true);
}

val safe(runtime& rt, const val& v, arguments& args) {
  const bound none("safe", args, {});
  return val::of(shown(rt, v), true);
}

val striptags(runtime& rt, const val& v, arguments& args) {
  const bound none("striptags", args, {});
  return stripped_of_tags(rt, v);
}

val urlencode(runtime& rt, const val& v, arguments& args) {
  const bound none("urlencode", args, {});
  if (v.is_string() || !iterable(v)) return percent_encoded(rt, v, true);
  std::vector<val> pairs;
  const text equals = rt.string_view("=").string();
  const auto add = [&](const val& key, const val& value) {
    const auto quoted = [&](const val& x) {
      const text t = percent_encoded(rt, x, false).string();
      return val::of(replaced(rt, t, rt.string_view("%20").string(), rt.string_view("+").string(), -1));
    };
    rt.memory(sizeof(val));
    pairs.push_back(join(rt, equals, {quoted(key), quoted(value)}));
  };
  if (v.is(kind::dict)) {
    for (const auto& [key, value] : v.dict().items) add(key, value);
  } else {
    cursor c(rt, v);
    for (val pair; c.next(pair);) {
      const std::vector<val> two = elements(rt, pair);
      if (two.size() != 2) fail_type("urlencode needs pairs");
      add(two[0], two[1]);
    }
  }
  return join(rt, rt.string_view("&").string(), pairs);
}

val wordcount(runtime& rt, const val& v, arguments& args) {
  const bound none("wordcount", args, {});
  const text t = shown(rt, v);
  rt.scan(4 * t.size());
  wide n = 0;
  bool inside = false;
  for (std::size_t i = 0; i < t.size();) {
    const auto c = unicode::decode(t.view(), i);
    const bool word =
        c.value == '_' || unicode::has(c.value, unicode::alpha | unicode::decimal | unicode::digit | unicode::numeric);
    n += word && !inside ? 1 : 0;
    inside = word;
    i += c.size;
  }
  return val::of(n);
}

val format(runtime& rt, const val& v, arguments& args) {
  const val pattern = v.is_string() ? v : val::of(shown(rt, v));
  if (!args.positional.empty() && !args.named.empty()) {
    fail_runtime("format takes positional or keyword arguments, not both");
  }
  if (args.named.empty()) return format_percent(rt, pattern, rt.tuple(args.positional));
  auto* d = rt.make<dict_node>();
  for (const auto& [name, value] : args.named) rt.insert(*d, rt.string(name), value);
  return format_percent(rt, pattern, val::of(d));
}

val tojson(runtime& rt, const val& v, arguments& args) {
  const bound b("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  json_style style;
  style.ensure_ascii = b.truth(0, false);
  style.sort_keys = b.truth(3, false);
  if (b.set(1)) {
    if (b[1].is_string()) {
      style.indent = std::string(b[1].view());
    } else {
      const std::int64_t width = b.integer(1, 0);
      if (width > 1000) fail_limit("tojson's indent is too large");
      style.indent = std::string(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
    }
    style.item_separator = ",";
  }
  if (b.set(2)) {
    const std::vector<val> two = elements(rt, b[2]);
    if (two.size() != 2 || !two[0].is_string() || !two[1].is_string()) {
      fail_type("tojson's separators are a pair of strings");
    }
    style.item_separator = std::string(two[0].view());
    style.key_separator = std::string(two[1].view());
  }
  return to_json(rt, v, style);
}

val fromjson(runtime& rt, const val& v, arguments& args) {
  const bound none("fromjson", args, {});
  if (v.is_undefined()) fail_use(v);
  if (!v.is_string()) fail_type("fromjson needs a string");
  return from_json(rt, v.view());
}

constexpr std::array<filter_entry, 17> entries = {{
    {"upper", cased<letter_case::upper>},
    {"lower", cased<letter_case::lower>},
    {"capitalize", cased<letter_case::capitalize>},
    {"title", title},
    {"trim", trim},
    {"replace", replace},
    {"string", string},
    {"escape", escape},
    {"e", escape},
    {"forceescape", forceescape},
    {"safe", safe},
    {"striptags", striptags},
    {"urlencode", urlencode},
    {"wordcount", wordcount},
    {"format", format},
    {"tojson", tojson},
    {"fromjson", fromjson},
}};

}  // namespace

std::span<const filter_entry> text_filters() { return entries; }

}  // namespace kvern::chat
