#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/chat/arguments.hpp"
#include "model/chat/builtins.hpp"
#include "model/chat/operators.hpp"
#include "model/chat/print.hpp"
#include "model/chat/selectors.hpp"
#include "model/chat/string_ops.hpp"

namespace kvern::chat {
namespace {

val length(runtime& rt, const val& v, arguments& args) {
  const bound none("length", args, {});
  return val::of(length_of(rt, v));
}

val first(runtime& rt, const val& v, arguments& args) {
  const bound none("first", args, {});
  cursor c(rt, v);
  val out;
  return c.next(out) ? out : rt.undefined("no first item, the sequence was empty");
}

val last(runtime& rt, const val& v, arguments& args) {
  const bound none("last", args, {});
  const val empty = rt.undefined("no last item, the sequence was empty");
  switch (v.type()) {
    case kind::undefined:
      if (v.why().security) fail_use(v);
      return empty;
    case kind::string: {
      if (v.string().empty()) return empty;
      const std::size_t at = unicode::before(v.view(), v.string().size());
      return val::of(v.string().from(at));
    }
    case kind::dict:
      return v.dict().items.empty() ? empty : v.dict().items.back().first;
    case kind::range:
      return v.range().count == 0 ? empty : v.range().at(v.range().count - 1);
    default:
      break;
  }
  if (!v.is_listed()) fail_type(fmt::format("'{}' object is not reversible", type_name(v)));
  return v.list().items.empty() ? empty : v.list().items.back();
}

val list(runtime& rt, const val& v, arguments& args) {
  const bound none("list", args, {});
  return rt.list(elements(rt, v));
}

val join_filter(runtime& rt, const val& v, arguments& args) {
  const bound b("join", args, {"d", "attribute"});
  std::vector<val> items = elements(rt, v);
  if (b.set(1)) {
    const attribute_path path(rt, b[1]);
    for (val& item : items) item = path.of(rt, item);
  }
  return join(rt, b.has(0) ? str_of(rt, b[0]).string() : text(), items);
}

val reverse(runtime& rt, const val& v, arguments& args) {
  const bound none("reverse", args, {});
  if (v.is_string()) return sliced(rt, v, val::none(), val::none(), val::of(wide{-1}));
  const bool reversible = v.is_listed() || v.is(kind::dict) || v.is(kind::range);
  std::vector<val> items = elements(rt, v);
  std::reverse(items.begin(), items.end());
  if (!reversible) return rt.list(std::move(items));
  auto* all = &rt.list(std::move(items)).list();
  return rt.iterator([all, at = std::size_t{0}](runtime&, val& out) mutable {
    if (at >= all->items.size()) return false;
    out = all->items[at++];
    return true;
  });
}

struct keyed {
  std::vector<val> keys;
  val element;
};

/// Stable; equal elements keep their order also when reversed.
void sort_keyed(runtime& rt, std::vector<keyed>& all, bool reversed) {
  std::stable_sort(all.begin(), all.end(), [&](const keyed& a, const keyed& b) {
    const keyed& x = reversed ? b : a;
    const keyed& y = reversed ? a : b;
    for (std::size_t i = 0; i < x.keys.size(); ++i) {
      if (i + 1 == x.keys.size() || !equal(rt, x.keys[i], y.keys[i])) return less(rt, x.keys[i], y.keys[i]);
    }
    return false;
  });
}

val sort(runtime& rt, const val& v, arguments& args) {
  const bound b("sort", args, {"reverse", "case_sensitive", "attribute"});
  std::vector<attribute_path> paths;
  if (b.has(2) && b[2].is_string()) {
    const text comma = rt.string_view(",", true).string();
    for (const val& part : split(rt, b[2].string(), &comma, -1)) paths.emplace_back(rt, part);
  } else {
    paths.emplace_back(rt, b.has(2) ? b[2] : val::none());
  }
  std::vector<keyed> all;
  for (const val& element : elements(rt, v)) {
    rt.memory(sizeof(keyed) + paths.size() * sizeof(val));
    keyed k;
    for (const attribute_path& path : paths) {
      k.keys.push_back(compared_key(rt, path.of(rt, element), b.truth(1, false)));
    }
    k.element = element;
    all.push_back(std::move(k));
  }
  sort_keyed(rt, all, b.truth(0, false));
  std::vector<val> out;
  for (const keyed& k : all) out.push_back(k.element);
  return rt.list(std::move(out));
}

val dictsort(runtime& rt, const val& v, arguments& args) {
  const bound b("dictsort", args, {"case_sensitive", "by", "reverse"});
  if (v.is_undefined()) fail_use(v);
  if (!v.is(kind::dict)) fail_type(fmt::format("dictsort needs a dict, not {}", type_name(v)));
  const std::string_view by = b.has(1) ? b.string(1).view() : "key";
  if (by != "key" && by != "value") fail_runtime("dictsort sorts by key or value");
  std::vector<keyed> all;
  for (const auto& [key, value] : v.dict().items) {
    rt.memory(sizeof(keyed) + sizeof(val));
    all.push_back({{compared_key(rt, by == "key" ? key : value, b.truth(0, false))}, rt.tuple({key, value})});
  }
  sort_keyed(rt, all, b.truth(2, false));
  std::vector<val> out;
  for (const keyed& k : all) out.push_back(k.element);
  return rt.list(std::move(out));
}

val unique(runtime& rt, const val& v, arguments& args) {
  const bound b("unique", args, {"case_sensitive", "attribute"});
  const attribute_path path(rt, b.has(1) ? b[1] : val::none());
  auto* seen = rt.make<dict_node>();
  const bool sensitive = b.truth(0, false);
  return rt.iterator([v, path, seen, sensitive, over = std::optional<cursor>()](runtime& r, val& out) mutable {
    if (!over) over.emplace(r, v);
    while (over->next(out)) {
      const val key = compared_key(r, path.of(r, out), sensitive);
      const std::size_t before = seen->items.size();
      r.insert(*seen, key, val::none());
      if (seen->items.size() != before) return true;
    }
    return false;
  });
}

template <bool Max>
val extreme(runtime& rt, const val& v, arguments& args) {
  const bound b(Max ? "max" : "min", args, {"case_sensitive", "attribute"});
  const attribute_path path(rt, b.has(1) ? b[1] : val::none());
  cursor c(rt, v);
  val best;
  if (!c.next(best)) return rt.undefined("no aggregated item, the sequence was empty");
  val best_key = compared_key(rt, path.of(rt, best), b.truth(0, false));
  for (val element; c.next(element);) {
    const val key = compared_key(rt, path.of(rt, element), b.truth(0, false));
    if (Max ? less(rt, best_key, key) : less(rt, key, best_key)) {
      best = element;
      best_key = key;
    }
  }
  return best;
}

val sum(runtime& rt, const val& v, arguments& args) {
  const bound b("sum", args, {"attribute", "start"});
  const attribute_path path(rt, b.has(0) ? b[0] : val::none());
  val total = b.has(1) ? b[1] : val::of(wide{0});
  if (total.is_string()) fail_type("sum() can't sum strings");
  cursor c(rt, v);
  for (val element; c.next(element);) total = binary(rt, ast::op::add, total, path.of(rt, element));
  return total;
}

val batch(runtime& rt, const val& v, arguments& args) {
  const bound b("batch", args, {"linecount", "fill_with"}, 1);
  const std::int64_t size = b.integer(0, 0);
  const val fill = b.has(1) ? b[1] : val::none();
  return rt.iterator(
      [v, size, fill, over = std::optional<cursor>(), ahead = std::optional<val>()](runtime& r, val& out) mutable {
        if (!over) over.emplace(r, v);
        std::vector<val> line;
        if (ahead) line.push_back(*ahead);
        ahead.reset();
        for (val element; over->next(element);) {
          if (static_cast<std::int64_t>(line.size()) == size) {
            ahead = element;
            out = r.list(std::move(line));
            return true;
          }
          r.memory(sizeof(val));
          line.push_back(element);
        }
        if (line.empty()) return false;
        const std::int64_t left = size - static_cast<std::int64_t>(line.size());
        if (!fill.is(kind::none) && left > 0) {
          if (static_cast<std::uint64_t>(left) > r.memory_left() / sizeof(val))
            fail_limit("batch takes too much memory");
          line.insert(line.end(), static_cast<std::size_t>(left), fill);
        }
        out = r.list(std::move(line));
        return true;
      });
}

val slice(runtime& rt, const val& v, arguments& args) {
  const bound b("slice", args, {"slices", "fill_with"}, 1);
  const std::int64_t slices = b.integer(0, 0);
  const val fill = b.has(1) ? b[1] : val::none();
  std::vector<val> all = elements(rt, v);
  if (slices == 0) fail_type("slice needs at least one slice");
  auto* items = &rt.list(std::move(all)).list();
  return rt.iterator(
      [items, slices, fill, number = std::int64_t{0}, at = std::size_t{0}](runtime& r, val& out) mutable {
        if (number >= slices) return false;
        const std::size_t n = items->items.size();
        const auto parts = static_cast<std::size_t>(slices);
        const bool extra = static_cast<std::size_t>(number) < n % parts;
        const std::size_t size = n / parts + (extra ? 1 : 0);
        std::vector<val> part(items->items.begin() + static_cast<std::ptrdiff_t>(at),
                              items->items.begin() + static_cast<std::ptrdiff_t>(at + size));
        if (!fill.is(kind::none) && !extra) part.push_back(fill);
        at += size;
        ++number;
        out = r.list(std::move(part));
        return true;
      });
}

val groupby(runtime& rt, const val& v, arguments& args) {
  const bound b("groupby", args, {"attribute", "default", "case_sensitive"}, 1);
  const attribute_path path(rt, b[0]);
  const auto key_of = [&](const val& element) {
    const val key = path.of(rt, element);
    return key.is_undefined() && b.set(1) ? b[1] : key;
  };
  std::vector<keyed> all;
  for (const val& element : elements(rt, v)) {
    rt.memory(sizeof(keyed) + sizeof(val));
    all.push_back({{compared_key(rt, key_of(element), b.truth(2, false))}, element});
  }
  sort_keyed(rt, all, false);
  std::vector<val> groups;
  for (std::size_t i = 0; i < all.size();) {
    std::vector<val> members;
    const std::size_t from = i;
    for (; i < all.size() && equal(rt, all[from].keys[0], all[i].keys[0]); ++i) members.push_back(all[i].element);
    // NaN is no group's key but its own element's.
    if (i == from) members.push_back(all[i++].element);
    const val group = rt.tuple({key_of(all[from].element), rt.list(std::move(members))});
    group.list().group = true;
    groups.push_back(group);
  }
  return rt.list(std::move(groups));
}

val items(runtime& rt, const val& v, arguments& args) {
  const bound none("items", args, {});
  return rt.iterator([v, at = std::size_t{0}](runtime& r, val& out) mutable {
    if (v.is_undefined()) return false;
    if (!v.is(kind::dict)) fail_type("items needs a mapping");
    const auto& pairs = v.dict().items;
    if (at >= pairs.size()) return false;
    out = r.tuple({pairs[at].first, pairs[at].second});
    ++at;
    return true;
  });
}

constexpr std::array<filter_entry, 17> entries = {{{"length", length},
                                                   {"count", length},
                                                   {"first", first},
                                                   {"last", last},
                                                   {"list", list},
                                                   {"join", join_filter},
                                                   {"reverse", reverse},
                                                   {"sort", sort},
                                                   {"dictsort", dictsort},
                                                   {"unique", unique},
                                                   {"min", extreme<false>},
                                                   {"max", extreme<true>},
                                                   {"sum", sum},
                                                   {"batch", batch},
                                                   {"slice", slice},
                                                   {"groupby", groupby},
                                                   {"items", items}}};

}  // namespace

std::span<const filter_entry> sequence_filters() { return entries; }

}  // namespace kvern::chat
