#include <array>

#include "model/chat/arguments.hpp"
#include "model/chat/builtins.hpp"
#include "model/chat/operators.hpp"
#include "model/chat/selectors.hpp"

namespace kvern::chat {
namespace {

/// What map and select hold between two elements. Made at the first element, so a filter that is never read from
/// never fails, as in Python's generators.
struct selection : node {
  std::optional<cursor> over;
  attribute_path path;
  val fallback;
  bool has_fallback = false;
  const filter_entry* filter = nullptr;
  const test_entry* test = nullptr;
  arguments rest;
};

/// Starts reading `v`; false when there is nothing to read.
bool start(runtime& rt, selection& s, const val& v) {
  if (!truth(v)) return false;
  s.over.emplace(rt, v);
  return true;
}

void prepare_map(runtime& rt, selection& s, arguments& args) {
  if (args.positional.empty()) {
    bool attribute = false;
    for (const auto& [name, value] : args.named) {
      if (name == "attribute") {
        s.path = attribute_path(rt, value);
        attribute = true;
      } else if (name == "default") {
        s.fallback = value;
        s.has_fallback = !value.is(kind::none);
      } else {
        fail_runtime("map got an unexpected keyword argument");
      }
    }
    if (!attribute) fail_runtime("map requires a filter argument");
    return;
  }
  if (!args.positional[0].is_string()) fail_type("map needs the name of a filter");
  s.filter = find_filter(args.positional[0].view());
  if (s.filter == nullptr) fail_runtime("map was given an unknown filter");
  s.rest.positional.assign(args.positional.begin() + 1, args.positional.end());
  s.rest.named = args.named;
}

val map(runtime& rt, const val& v, arguments& args) {
  auto* s = rt.make<selection>();
  return rt.iterator([s, v, given = args](runtime& r, val& out) mutable {
    if (!s->over) {
      if (!start(r, *s, v)) return false;
      prepare_map(r, *s, given);
    }
    val element;
    if (!s->over->next(element)) return false;
    if (s->filter != nullptr) {
      arguments each = s->rest;
      out = s->filter->run(r, element, each);
      return true;
    }
    out = s->path.of(r, element);
    if (s->has_fallback && out.is_undefined()) out = s->fallback;
    return true;
  });
}

void prepare_select(runtime& rt, selection& s, const arguments& args, bool by_attribute) {
  std::size_t at = 0;
  if (by_attribute) {
    if (args.positional.empty()) fail_runtime("selectattr and rejectattr need the name of an attribute");
    s.path = attribute_path(rt, args.positional[at++]);
  }
  if (at >= args.positional.size()) return;
  if (!args.positional[at].is_string()) fail_type("select and reject need the name of a test");
  s.test = find_test(args.positional[at].view());
  if (s.test == nullptr) fail_runtime("select was given an unknown test");
  s.rest.positional.assign(args.positional.begin() + static_cast<std::ptrdiff_t>(at) + 1, args.positional.end());
  s.rest.named = args.named;
}

template <bool Wanted, bool ByAttribute>
val select(runtime& rt, const val& v, arguments& args) {
  auto* s = rt.make<selection>();
  return rt.iterator([s, v, given = args](runtime& r, val& out) {
    if (!s->over) {
      if (!start(r, *s, v)) return false;
      prepare_select(r, *s, given, ByAttribute);
    }
    while (s->over->next(out)) {
      const val looked_at = ByAttribute ? s->path.of(r, out) : out;
      bool passes = false;
      if (s->test != nullptr) {
        arguments each = s->rest;
        passes = s->test->run(r, looked_at, each);
      } else {
        passes = truth(looked_at);
      }
      if (passes == Wanted) return true;
    }
    return false;
  });
}

val fallback(runtime&, const val& v, arguments& args) {
  const bound b("default", args, {"default_value", "boolean"});
  const bool replace = v.is_undefined() || (b.truth(1, false) && !truth(v));
  if (!replace) return v;
  return b.has(0) ? b[0] : val::of(text());
}

val attr(runtime& rt, const val& v, arguments& args) {
  const bound b("attr", args, {"name"}, 1);
  if (v.is_undefined()) fail_use(v);
  val out;
  if (find_attribute(rt, v, b.string(0), out)) return out;
  return rt.undefined("there is no such attribute");
}

constexpr std::array<filter_entry, 8> entries = {{{"map", map},
                                                  {"select", select<true, false>},
                                                  {"reject", select<false, false>},
                                                  {"selectattr", select<true, true>},
                                                  {"rejectattr", select<false, true>},
                                                  {"default", fallback},
                                                  {"d", fallback},
                                                  {"attr", attr}}};

}  // namespace

std::span<const filter_entry> selection_filters() { return entries; }

}  // namespace kvern::chat
