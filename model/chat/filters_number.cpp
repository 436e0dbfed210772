#include <fmt/format.h>

#include <array>
#include <cmath>

#include "model/chat/arguments.hpp"
#include "model/chat/builtins.hpp"
#include "model/chat/numbers.hpp"
#include "model/chat/operators.hpp"

namespace kvern::chat {
namespace {

val absolute(runtime&, const val& v, arguments& args) {
  const bound none("abs", args, {});
  if (v.is_undefined()) fail_use(v);
  if (v.is(kind::real)) return val::of(std::fabs(v.real()));
  if (!v.is_integral()) fail_type(fmt::format("bad operand type for abs(): '{}'", type_name(v)));
  return v.integer() < 0 ? negated(v) : val::of(v.integer());
}

val truncated(double d) {
  if (std::isnan(d)) fail_type("cannot convert float NaN to integer");
  if (std::isinf(d)) fail_type("cannot convert float infinity to integer");
  if (std::fabs(d) > 1.7e38) fail_limit("a number of the chat template is too large for an integer");
  return val::of(static_cast<wide>(d));
}

val integer(runtime& rt, const val& v, arguments& args) {
  const bound b("int", args, {"default", "base"});
  const val fallback = b.has(0) ? b[0] : val::of(wide{0});
  if (v.is_undefined()) fail_use(v);
  if (v.is_integral()) return val::of(v.integer());
  if (v.is(kind::real)) return truncated(v.real());
  if (!v.is_string()) return fallback;
  rt.scan(v.string().size());
  const std::int64_t base = b.integer(1, 10);
  if (const auto i = parse_integer(v.view(), base > 36 || base < 0 ? 99 : static_cast<int>(base))) return val::of(*i);
  const auto d = parse_real(v.view());
  if (!d || !std::isfinite(*d)) return fallback;
  return truncated(*d);
}

val real(runtime& rt, const val& v, arguments& args) {
  const bound b("float", args, {"default"});
  if (v.is_string()) rt.scan(v.string().size());
  if (const auto d = to_real(v)) return val::of(*d);
  return b.has(0) ? b[0] : val::of(0.0);
}

wide round_integer(wide i, std::int64_t digits) {
  wide unit = 1;
  for (std::int64_t n = digits; n < 0; ++n) {
    if (__builtin_mul_overflow(unit, wide{10}, &unit)) return 0;
  }
  // To the nearer multiple from the one towards zero; a tie goes to the even one.
  const wide rest = i % unit;
  const wide size = rest < 0 ? -rest : rest;
  wide r = i - rest;
  const bool away = size > unit - size || (size == unit - size && (r / unit) % 2 != 0);
  if (away && __builtin_add_overflow(r, i < 0 ? -unit : unit, &r)) {
    fail_limit("an integer of the chat template grows beyond 127 bits");
  }
  return r;
}

val round(runtime&, const val& v, arguments& args) {
  const bound b("round", args, {"precision", "method"});
  if (!v.is_number()) fail_type(fmt::format("round needs a number, not {}", type_name(v)));
  const std::int64_t digits = b.integer(0, 0);
  const std::string_view method = b.has(1) ? b.string(1).view() : "common";
  if (method == "common") {
    if (v.is_integral()) return val::of(digits >= 0 ? v.integer() : round_integer(v.integer(), digits));
    return val::of(round_real(v.real(), static_cast<int>(std::clamp<std::int64_t>(digits, -400, 400))));
  }
  if (method != "ceil" && method != "floor") fail_runtime("round's method is common, ceil or floor");
  const double unit = std::pow(10.0, static_cast<double>(digits));
  const double scaled = v.as_real() * unit;
  if (!std::isfinite(scaled)) fail_type("round's number is out of range");
  return val::of((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

constexpr std::array<filter_entry, 4> entries = {
    {{"abs", absolute}, {"int", integer}, {"float", real}, {"round", round}}};

}  // namespace

std::span<const filter_entry> number_filters() { return entries; }

}  // namespace kvern::chat
