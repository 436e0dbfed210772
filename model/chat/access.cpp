#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "model/chat/arguments.hpp"
#include "model/chat/methods.hpp"
#include "model/chat/operators.hpp"
#include "model/chat/unicode.hpp"

namespace kvern::chat {
namespace {

/// A name for a message: the template's own words only.
std::string shown(const text& name) { return name.all_trusted() ? fmt::format(" '{}'", name.view()) : std::string(); }

std::string owner(const val& v) {
  return v.is(kind::none) ? std::string("'None'") : fmt::format("'{} object'", type_name(v));
}

val hidden(runtime& rt, const val& v, const text& name) {
  return rt.undefined(fmt::format("access to attribute{} of '{}' object is unsafe", shown(name), type_name(v)), true);
}

val missing(runtime& rt, const val& v, const text& name) {
  return rt.undefined(fmt::format("{} has no attribute{}", owner(v), shown(name)));
}

/// Element `i` of `n`, from the end when negative; false when there is none.
bool in_range(const val& key, std::size_t n, std::size_t& out) {
  wide i = key.integer();
  if (i < 0) i += static_cast<wide>(n);
  if (i < 0 || i >= static_cast<wide>(n)) return false;
  out = static_cast<std::size_t>(i);
  return true;
}

bool find_item(runtime& rt, const val& v, const val& key, val& out) {
  if (v.is(kind::dict)) {
    if (key.is(kind::list) || key.is(kind::dict) || key.is(kind::view)) return false;
    const val* found = v.dict().find(rt, key);
    if (found != nullptr) out = *found;
    return found != nullptr;
  }
  if (!key.is_integral()) return false;
  std::size_t i = 0;
  switch (v.type()) {
    case kind::list:
    case kind::tuple:
      if (!in_range(key, v.list().items.size(), i)) return false;
      out = v.list().items[i];
      return true;
    case kind::range:
      if (!in_range(key, v.range().count, i)) return false;
      out = v.range().at(i);
      return true;
    case kind::string: {
      const text& t = v.string();
      if (!t.ascii()) rt.scan(2 * t.size());
      if (!in_range(key, t.length(), i)) return false;
      const std::size_t at = t.offset_of(i);
      out = val::of(t.sub(at, unicode::decode(t.view(), at).size));
      return true;
    }
    default:
      return false;
  }
}

struct span {
  std::int64_t start = 0, step = 1;
  std::size_t count = 0;
};

/// Python's slice.indices. False when a bound is no integer.
bool slice_span(const val& start, const val& stop, const val& step, std::size_t size, span& out) {
  const auto clamped = [](const val& v) {
    constexpr wide big = std::numeric_limits<std::int32_t>::max();
    return static_cast<std::int64_t>(std::clamp<wide>(v.integer(), -2 * big, 2 * big));
  };
  for (const val* v : {&start, &stop, &step}) {
    if (!v->is(kind::none) && !v->is_integral()) return false;
  }
  const auto n = static_cast<std::int64_t>(size);
  out.step = step.is(kind::none) ? 1 : clamped(step);
  if (out.step == 0) fail_type("slice step cannot be zero");
  const std::int64_t low = out.step < 0 ? -1 : 0;
  const std::int64_t high = out.step < 0 ? n - 1 : n;
  const auto bound_of = [&](const val& v, std::int64_t fallback) {
    if (v.is(kind::none)) return fallback;
    std::int64_t i = clamped(v);
    if (i < 0) i += n;
    return std::clamp(i, low, high);
  };
  out.start = bound_of(start, out.step < 0 ? high : low);
  const std::int64_t end = bound_of(stop, out.step < 0 ? low : high);
  const std::int64_t distance = out.step < 0 ? out.start - end : end - out.start;
  const std::int64_t stride = out.step < 0 ? -out.step : out.step;
  out.count = distance <= 0 ? 0 : static_cast<std::size_t>((distance + stride - 1) / stride);
  return true;
}

val slice_text(runtime& rt, const val& v, const span& s) {
  const text& t = v.string();
  const auto first = static_cast<std::size_t>(std::max<std::int64_t>(s.start, 0));
  if (s.count == 0) return val::of(text(), v.markup());
  if (s.step == 1) {
    const std::size_t from = t.offset_of(first);
    const text tail = t.from(from);
    return val::of(tail.sub(0, tail.offset_of(s.count)), v.markup());
  }
  std::vector<std::size_t> starts;
  if (!t.ascii()) {
    rt.memory(t.size() * sizeof(std::size_t));
    for (std::size_t i = 0; i < t.size(); i += unicode::decode(t.view(), i).size) starts.push_back(i);
  }
  text_builder out(rt);
  for (std::size_t i = 0; i < s.count; ++i) {
    const auto at = static_cast<std::size_t>(s.start + static_cast<std::int64_t>(i) * s.step);
    const std::size_t byte = starts.empty() ? at : starts[at];
    out.add(t.sub(byte, unicode::decode(t.view(), byte).size));
  }
  return out.finish(v.markup());
}

}  // namespace

bool find_attribute(runtime& rt, const val& v, const text& name, val& out) {
  const std::string_view s = name.view();
  if (s.size() > 4 && s.starts_with("__") && s.ends_with("__")) {
    out = hidden(rt, v, name);
    return true;
  }
  if (v.is(kind::instance)) return v.object().attribute(rt, s, out);
  if (v.is(kind::tuple) && v.list().group && (s == "grouper" || s == "list")) {
    out = v.list().items[s == "list" ? 1 : 0];
    return true;
  }
  if (v.is_number() && (s == "real" || s == "imag")) {
    out = s == "real" ? positive(v) : v.is(kind::real) ? val::of(0.0) : val::of(wide{0});
    return true;
  }
  if (is_mutating(v, s)) {
    out = hidden(rt, v, name);
    return true;
  }
  const function_node::pointer method = v.is_string() ? find_string_method(s) : find_container_method(v, s);
  if (method == nullptr) return false;
  out = rt.function(s, method, v);
  return true;
}

val attribute(runtime& rt, const val& v, const text& name) {
  rt.step();
  if (v.is_undefined()) fail_use(v);
  val out;
  if (find_attribute(rt, v, name, out)) return out;
  if (v.is(kind::dict)) {
    if (const val* found = v.dict().find(name.view())) return *found;
  }
  return missing(rt, v, name);
}

val item(runtime& rt, const val& v, const val& key) {
  rt.step();
  if (v.is_undefined()) fail_use(v);
  val out;
  if (find_item(rt, v, key, out)) return out;
  if (key.is_string()) {
    if (find_attribute(rt, v, key.string(), out)) return out;
    return missing(rt, v, key.string());
  }
  return rt.undefined(fmt::format("{} has no such element", owner(v)));
}

val sliced(runtime& rt, const val& v, const val& start, const val& stop, const val& step, bool lenient) {
  rt.step();
  if (v.is_undefined()) fail_use(v);
  const bool listed = v.is(kind::list) || v.is(kind::tuple);
  span s;
  if ((!listed && !v.is_string() && !v.is(kind::range)) || !slice_span(start, stop, step, length_of(rt, v), s)) {
    if (lenient) return rt.undefined(fmt::format("{} cannot be sliced so", owner(v)));
    fail_type(fmt::format("{} cannot be sliced so", owner(v)));
  }
  if (v.is_string()) return slice_text(rt, v, s);
  if (v.is(kind::range)) {
    const range_node& r = v.range();
    auto* out = rt.make<range_node>();
    wide length = 0;
    if (__builtin_mul_overflow(r.step, wide{s.step}, &out->step) ||
        __builtin_mul_overflow(out->step, static_cast<wide>(s.count), &length) ||
        __builtin_mul_overflow(r.step, wide{s.start}, &out->start) ||
        __builtin_add_overflow(r.start, out->start, &out->start) ||
        __builtin_add_overflow(out->start, length, &out->stop)) {
      fail_limit("a range of the chat template grows beyond 127 bits");
    }
    out->count = s.count;
    return val::of(out);
  }
  std::vector<val> items;
  rt.memory(s.count * sizeof(val));
  items.reserve(s.count);
  for (std::size_t i = 0; i < s.count; ++i) {
    items.push_back(v.list().items[static_cast<std::size_t>(s.start + static_cast<std::int64_t>(i) * s.step)]);
  }
  return rt.list(std::move(items), v.list().as);
}

}  // namespace kvern::chat
