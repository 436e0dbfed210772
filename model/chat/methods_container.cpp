#include <algorithm>
#include <cmath>
#include <utility>

#include "model/chat/arguments.hpp"
#include "model/chat/methods.hpp"
#include "model/chat/operators.hpp"

namespace kvern::chat {
namespace {

val dict_view(runtime& rt, const val& self, flavour as) {
  const auto& pairs = self.dict().items;
  rt.memory(pairs.size() * sizeof(val));
  std::vector<val> items;
  items.reserve(pairs.size());
  for (const auto& [key, value] : pairs) {
    rt.step();
    items.push_back(as == flavour::keys ? key : as == flavour::values ? value : rt.tuple({key, value}));
  }
  return rt.list(std::move(items), as);
}

template <flavour As>
val view(runtime& rt, const val& self, arguments& args) {
  const bound none("dict method", args, {});
  return dict_view(rt, self, As);
}

val get(runtime& rt, const val& self, arguments& args) {
  const bound b("get", args, {"key", "default"}, 1);
  const val* found = self.dict().find(rt, b[0]);
  if (found != nullptr) return *found;
  return b.has(1) ? b[1] : val::none();
}

val copy(runtime& rt, const val& self, arguments& args) {
  const bound none("copy", args, {});
  return self.is(kind::dict) ? rt.dict(self.dict().items) : rt.list(self.list().items);
}

val fromkeys(runtime& rt, const val&, arguments& args) {
  const bound b("fromkeys", args, {"iterable", "value"}, 1);
  auto* d = rt.make<dict_node>();
  cursor c(rt, b[0]);
  for (val key; c.next(key);) rt.insert(*d, key, b.has(1) ? b[1] : val::none());
  return val::of(d);
}

val count(runtime& rt, const val& self, arguments& args) {
  const bound b("count", args, {"value"}, 1);
  wide n = 0;
  for (const val& v : self.list().items) n += equal(rt, v, b[0]) ? 1 : 0;
  return val::of(n);
}

val index(runtime& rt, const val& self, arguments& args) {
  const bound b("index", args, {"value", "start", "stop"}, 1);
  const auto& items = self.list().items;
  const auto n = static_cast<std::int64_t>(items.size());
  const auto clamped = [&](std::size_t i, std::int64_t fallback) {
    const std::int64_t v = b.integer(i, fallback);
    return std::clamp<std::int64_t>(v < 0 ? v + n : v, 0, n);
  };
  for (std::int64_t i = clamped(1, 0), end = clamped(2, n); i < end; ++i) {
    if (equal(rt, items[static_cast<std::size_t>(i)], b[0])) return val::of(static_cast<wide>(i));
  }
  fail_type("the value is not in the list");
}

val is_integer(runtime&, const val& self, arguments& args) {
  const bound none("is_integer", args, {});
  return val::of(std::isfinite(self.real()) && self.real() == std::floor(self.real()));
}

val bit_length(runtime&, const val& self, arguments& args) {
  const bound none("bit_length", args, {});
  const wide i = self.integer();
  auto u = i < 0 ? -static_cast<unsigned __int128>(i) : static_cast<unsigned __int128>(i);
  wide n = 0;
  for (; u != 0; u >>= 1) ++n;
  return val::of(n);
}

constexpr std::string_view list_changes[] = {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"};
constexpr std::string_view dict_changes[] = {"clear", "pop", "popitem", "setdefault", "update"};

}  // namespace

function_node::pointer find_container_method(const val& of, std::string_view name) {
  switch (of.type()) {
    case kind::dict:
      if (name == "items") return view<flavour::items>;
      if (name == "keys") return view<flavour::keys>;
      if (name == "values") return view<flavour::values>;
      if (name == "get") return get;
      if (name == "copy") return copy;
      if (name == "fromkeys") return fromkeys;
      return nullptr;
    case kind::list:
    case kind::tuple:
      if (name == "count") return count;
      if (name == "index") return index;
      return name == "copy" && of.is(kind::list) ? copy : nullptr;
    case kind::real:
      return name == "is_integer" ? is_integer : nullptr;
    case kind::integer:
    case kind::boolean:
      return name == "bit_length" ? bit_length : nullptr;
    default:
      return nullptr;
  }
}

bool is_mutating(const val& of, std::string_view name) {
  const auto in = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  return (of.is(kind::list) && in(list_changes)) || (of.is(kind::dict) && in(dict_changes));
}

}  // namespace kvern::chat
