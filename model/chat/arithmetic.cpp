#include <fmt/format.h>

#include <cmath>

#include "model/chat/format.hpp"
#include "model/chat/markup.hpp"
#include "model/chat/operators.hpp"

namespace kvern::chat {
namespace {

constexpr const char* symbol(ast::op op) {
  switch (op) {
    case ast::op::add:
      return "+";
    case ast::op::sub:
      return "-";
    case ast::op::mul:
      return "*";
    case ast::op::div:
      return "/";
    case ast::op::floordiv:
      return "//";
    case ast::op::mod:
      return "%";
    default:
      return "**";
  }
}

[[noreturn]] void overflow() { fail_limit("an integer of the chat template grows beyond 127 bits"); }

/// The remainder has the divisor's sign, and the quotient is rounded down to fit it.
val floored(ast::op op, wide a, wide b) {
  const wide rest = a % b;
  const bool inexact = rest != 0 && (rest < 0) != (b < 0);
  if (op == ast::op::mod) return val::of(inexact ? rest + b : rest);
  return val::of(a / b - (inexact ? 1 : 0));
}

wide power(wide base, wide exponent) {
  if (base == 1 || exponent == 0) return 1;
  if (base == 0) return 0;
  if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  if (exponent > 127) overflow();
  wide r = 1;
  for (wide i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(r, base, &r)) overflow();
  }
  return r;
}

val integers(ast::op op, wide a, wide b) {
  wide r = 0;
  switch (op) {
    case ast::op::add:
      if (__builtin_add_overflow(a, b, &r)) overflow();
      return val::of(r);
    case ast::op::sub:
      if (__builtin_sub_overflow(a, b, &r)) overflow();
      return val::of(r);
    case ast::op::mul:
      if (__builtin_mul_overflow(a, b, &r)) overflow();
      return val::of(r);
    case ast::op::pow:
      if (b >= 0) return val::of(power(a, b));
      if (a == 0) fail_type("0.0 cannot be raised to a negative power");
      return val::of(std::pow(static_cast<double>(a), static_cast<double>(b)));
    default:
      break;
  }
  if (b == 0) fail_type("division by zero");
  if (op == ast::op::div)
    return val::of(static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b)));
  // The one quotient that does not fit.
  if (b == -1) {
    if (op == ast::op::mod) return val::of(wide{0});
    if (__builtin_sub_overflow(wide{0}, a, &r)) overflow();
    return val::of(r);
  }
  return floored(op, a, b);
}

val reals(ast::op op, double a, double b) {
  switch (op) {
    case ast::op::add:
      return val::of(a + b);
    case ast::op::sub:
      return val::of(a - b);
    case ast::op::mul:
      return val::of(a * b);
    case ast::op::pow: {
      if (a == 0 && b < 0) fail_type("0.0 cannot be raised to a negative power");
      const double r = std::pow(a, b);
      if (std::isnan(r) && !std::isnan(a) && !std::isnan(b)) fail_type("a power has no real value");
      if (std::isinf(r) && !std::isinf(a) && !std::isinf(b)) fail_limit("a power is too large");
      return val::of(r);
    }
    default:
      break;
  }
  if (b == 0) fail_type("division by zero");
  if (op == ast::op::div) return val::of(a / b);
  double m = std::fmod(a, b);
  if (m != 0 && (m < 0) != (b < 0)) m += b;
  if (m == 0) m = std::copysign(0.0, b);
  if (op == ast::op::mod) return val::of(m);
  const double q = (a - m) / b;
  double f = std::floor(q);
  if (q - f > 0.5) f += 1;
  return val::of(q == 0 ? std::copysign(0.0, a / b) : f);
}

val repeated(runtime& rt, const val& sequence, const val& count) {
  const wide n = count.integer() < 0 ? 0 : count.integer();
  if (sequence.is_string()) {
    const text& t = sequence.string();
    if (t.empty() || n == 0) return val::of(text(), sequence.markup());
    if (n > static_cast<wide>(rt.memory_left())) fail_limit("a repeated string takes too much memory");
    text_builder out(rt);
    out.add_repeated(t, static_cast<std::uint64_t>(n));
    return out.finish(sequence.markup());
  }
  const auto& items = sequence.list().items;
  if (!items.empty() && n > static_cast<wide>(rt.memory_left() / (items.size() * sizeof(val)))) {
    fail_limit("a repeated list takes too much memory");
  }
  std::vector<val> out;
  out.reserve(items.size() * static_cast<std::size_t>(items.empty() ? 0 : n));
  for (wide i = 0; i < n && !items.empty(); ++i) out.insert(out.end(), items.begin(), items.end());
  return rt.list(std::move(out), sequence.list().as);
}

val added(runtime& rt, const val& a, const val& b) {
  if (a.is_string() && b.is_string()) {
    if (!a.markup() && !b.markup()) return val::of(joined(rt, a.string(), b.string()));
    const val x = a.markup() ? a : escaped(rt, a);
    const val y = b.markup() ? b : escaped(rt, b);
    return val::of(joined(rt, x.string(), y.string()), true);
  }
  if (a.type() == b.type() && (a.is(kind::list) || a.is(kind::tuple))) {
    rt.memory((a.list().items.size() + b.list().items.size()) * sizeof(val));
    std::vector<val> out = a.list().items;
    out.insert(out.end(), b.list().items.begin(), b.list().items.end());
    return rt.list(std::move(out), a.list().as);
  }
  return {};
}

}  // namespace

val binary(runtime& rt, ast::op op, const val& a, const val& b) {
  rt.step();
  if (op == ast::op::mod && a.is_string()) return format_percent(rt, a, b);
  if (a.is_undefined()) fail_use(a);
  if (b.is_undefined()) fail_use(b);
  if (a.is_integral() && b.is_integral()) return integers(op, a.integer(), b.integer());
  if (a.is_number() && b.is_number()) return reals(op, a.as_real(), b.as_real());
  if (op == ast::op::add) {
    if (const val v = added(rt, a, b); !v.is(kind::none)) return v;
  }
  if (op == ast::op::mul) {
    const auto sequence = [](const val& v) { return v.is_string() || v.is(kind::list) || v.is(kind::tuple); };
    if (sequence(a) && b.is_integral()) return repeated(rt, a, b);
    if (sequence(b) && a.is_integral()) return repeated(rt, b, a);
  }
  fail_type(fmt::format("unsupported operand types for {}: '{}' and '{}'", symbol(op), type_name(a), type_name(b)));
}

val negated(const val& v) {
  if (v.is_undefined()) fail_use(v);
  if (v.is(kind::real)) return val::of(-v.real());
  if (!v.is_integral()) fail_type(fmt::format("bad operand type for unary -: '{}'", type_name(v)));
  wide r = 0;
  if (__builtin_sub_overflow(wide{0}, v.integer(), &r)) overflow();
  return val::of(r);
}

val positive(const val& v) {
  if (v.is_undefined()) fail_use(v);
  if (v.is(kind::real)) return v;
  if (!v.is_integral()) fail_type(fmt::format("bad operand type for unary +: '{}'", type_name(v)));
  return val::of(v.integer());
}

}  // namespace kvern::chat
