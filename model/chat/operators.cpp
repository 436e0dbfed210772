#include "model/chat/operators.hpp"

#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "model/chat/print.hpp"
#include "model/chat/search.hpp"

namespace kvern::chat {
namespace {

constexpr std::uint64_t golden = 0x9E3779B97F4A7C15ull;

/// -1, 0, 1; 2 when one is NaN.
int order_numbers(const val& a, const val& b) {
  if (a.is_integral() && b.is_integral()) {
    return a.integer() < b.integer() ? -1 : a.integer() > b.integer() ? 1 : 0;
  }
  const auto wide_real = [](const val& v) {
    return v.is(kind::real) ? static_cast<long double>(v.real()) : static_cast<long double>(v.integer());
  };
  const long double x = wide_real(a);
  const long double y = wide_real(b);
  if (std::isnan(x) || std::isnan(y)) return 2;
  return x < y ? -1 : x > y ? 1 : 0;
}

bool identical(const val& a, const val& b) {
  return a.type() == b.type() && (a.is_listed() || a.is(kind::dict)) && a.address() == b.address();
}

bool equal_lists(runtime& rt, const std::vector<val>& a, const std::vector<val>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!equal(rt, a[i], b[i])) return false;
  }
  return true;
}

}  // namespace

bool truth(const val& v) {
  switch (v.type()) {
    case kind::undefined:
      if (v.why().security) fail_use(v);
      return false;
    case kind::none:
      return false;
    case kind::boolean:
      return v.boolean();
    case kind::integer:
      return v.integer() != 0;
    case kind::real:
      return v.real() != 0;
    case kind::string:
      return !v.string().empty();
    case kind::list:
    case kind::tuple:
    case kind::view:
      return !v.list().items.empty();
    case kind::dict:
      return !v.dict().items.empty();
    case kind::range:
      return v.range().count != 0;
    case kind::iterator:
    case kind::instance:
      return true;
  }
  return true;
}

bool equal(runtime& rt, const val& a, const val& b) {
  rt.step();
  if (a.is_number() && b.is_number()) return order_numbers(a, b) == 0;
  if (a.type() != b.type()) return false;
  if (identical(a, b)) return true;
  switch (a.type()) {
    case kind::undefined:
    case kind::none:
      return true;
    case kind::string:
      rt.scan(a.string().size() == b.string().size() ? a.string().size() : 0);
      return a.view() == b.view();
    case kind::list:
    case kind::tuple:
      return equal_lists(rt, a.list().items, b.list().items);
    case kind::view:
      return a.list().as == b.list().as && equal_lists(rt, a.list().items, b.list().items);
    case kind::dict: {
      const auto& items = a.dict().items;
      if (items.size() != b.dict().items.size()) return false;
      for (const auto& [key, value] : items) {
        const val* other = b.dict().find(rt, key);
        if (other == nullptr || !equal(rt, value, *other)) return false;
      }
      return true;
    }
    case kind::range: {
      const range_node& x = a.range();
      const range_node& y = b.range();
      if (x.count != y.count) return false;
      return x.count == 0 || (x.start == y.start && (x.count == 1 || x.step == y.step));
    }
    default:
      return a.address() == b.address();
  }
}

bool same(const val& a, const val& b) {
  if (a.type() != b.type()) return false;
  switch (a.type()) {
    case kind::undefined:
      return &a.why() == &b.why();
    case kind::none:
      return true;
    case kind::boolean:
      return a.boolean() == b.boolean();
    case kind::integer:
      return a.integer() == b.integer();
    case kind::real:
      return a.real() == b.real();
    case kind::string:
      return a.view() == b.view();
    default:
      return a.address() == b.address();
  }
}

bool less(runtime& rt, const val& a, const val& b) {
  rt.step();
  if (a.is_undefined()) fail_use(a);
  if (b.is_undefined()) fail_use(b);
  if (a.is_number() && b.is_number()) return order_numbers(a, b) == -1;
  if (a.is_string() && b.is_string()) {
    rt.scan(std::min(a.string().size(), b.string().size()));
    // UTF-8 sorts as its code points do.
    return a.view() < b.view();
  }
  if (a.type() == b.type() && (a.is(kind::list) || a.is(kind::tuple))) {
    const auto& x = a.list().items;
    const auto& y = b.list().items;
    for (std::size_t i = 0; i < x.size() && i < y.size(); ++i) {
      if (!equal(rt, x[i], y[i])) return less(rt, x[i], y[i]);
    }
    return x.size() < y.size();
  }
  fail_type(fmt::format("'<' not supported between instances of '{}' and '{}'", type_name(a), type_name(b)));
}

bool compare(runtime& rt, ast::op op, const val& a, const val& b) {
  const auto not_above = [&](const val& x, const val& y) {
    if (x.is_number() && y.is_number()) return order_numbers(x, y) <= 0;
    return !less(rt, y, x);
  };
  switch (op) {
    case ast::op::eq:
      return equal(rt, a, b);
    case ast::op::ne:
      return !equal(rt, a, b);
    case ast::op::lt:
      return less(rt, a, b);
    case ast::op::gt:
      return less(rt, b, a);
    case ast::op::le:
      return not_above(a, b);
    case ast::op::ge:
      return not_above(b, a);
    case ast::op::in:
      return contains(rt, b, a);
    default:
      return !contains(rt, b, a);
  }
}

bool contains(runtime& rt, const val& haystack, const val& needle) {
  switch (haystack.type()) {
    case kind::string:
      if (!needle.is_string()) {
        fail_type(fmt::format("'in <string>' requires string as left operand, not {}", type_name(needle)));
      }
      rt.scan(haystack.string().size());
      return searcher(rt, needle.view()).find(haystack.view()) != std::string_view::npos;
    case kind::dict:
      return haystack.dict().find(rt, needle) != nullptr;
    case kind::range: {
      if (!needle.is_number()) return false;
      const range_node& r = haystack.range();
      if (needle.is(kind::real) && needle.real() != std::floor(needle.real())) return false;
      if (r.count == 0 || (needle.is(kind::real) && std::fabs(needle.real()) > 1e18)) return false;
      const wide i = needle.is(kind::real) ? static_cast<wide>(needle.real()) : needle.integer();
      wide off = 0;
      if (__builtin_sub_overflow(i, r.start, &off)) return false;
      return off % r.step == 0 && off / r.step >= 0 && off / r.step < static_cast<wide>(r.count);
    }
    default:
      break;
  }
  if (!iterable(haystack)) fail_type(fmt::format("argument of type '{}' is not iterable", type_name(haystack)));
  cursor c(rt, haystack);
  for (val v; c.next(v);) {
    if (equal(rt, v, needle)) return true;
  }
  return false;
}

std::size_t length_of(runtime& rt, const val& v) {
  switch (v.type()) {
    case kind::undefined:
      if (v.why().security) fail_use(v);
      return 0;
    case kind::string:
      rt.scan(v.string().size());
      return v.string().length();
    case kind::list:
    case kind::tuple:
    case kind::view:
      return v.list().items.size();
    case kind::dict:
      return v.dict().items.size();
    case kind::range:
      return v.range().count;
    default:
      fail_type(fmt::format("object of type '{}' has no len()", type_name(v)));
  }
}

std::uint64_t hash_of(std::string_view s) { return std::hash<std::string_view>()(s) | 1; }

std::uint64_t hash_of(runtime& rt, const val& v) {
  switch (v.type()) {
    case kind::string:
      rt.scan(v.string().size());
      return hash_of(v.view());
    case kind::boolean:
    case kind::integer:
      return static_cast<std::uint64_t>(v.integer()) * golden;
    case kind::real:
      if (v.real() == std::floor(v.real()) && std::fabs(v.real()) < 1e37) {
        return static_cast<std::uint64_t>(static_cast<wide>(v.real())) * golden;
      }
      return std::hash<double>()(v.real());
    case kind::tuple: {
      std::uint64_t h = 7;
      for (const val& item : v.list().items) {
        rt.step();
        h = (h ^ hash_of(rt, item)) * golden;
      }
      return h;
    }
    case kind::list:
    case kind::dict:
    case kind::view:
      fail_type(fmt::format("unhashable type: '{}'", type_name(v)));
    case kind::undefined:
    case kind::none:
      return static_cast<std::uint64_t>(v.type());
    default:
      return std::hash<const void*>()(v.address());
  }
}

val call(runtime& rt, const val& f, arguments& args) {
  rt.step();
  if (f.is_undefined()) fail_use(f);
  if (!f.is(kind::instance)) fail_type(fmt::format("'{}' object is not callable", type_name(f)));
  return f.object().call(rt, args);
}

}  // namespace kvern::chat
