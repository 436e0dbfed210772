#include <algorithm>
#include <array>

#include "model/chat/arguments.hpp"
#include "model/chat/builtins.hpp"
#include "model/chat/methods.hpp"
#include "model/chat/operators.hpp"
#include "model/chat/print.hpp"

namespace kvern::chat {
namespace {

template <bool (*Predicate)(const val&)>
bool plain(runtime&, const val& v, arguments& args) {
  const bound none("test", args, {});
  return Predicate(v);
}

bool is_true(const val& v) { return v.is(kind::boolean) && v.boolean(); }
bool is_false(const val& v) { return v.is(kind::boolean) && !v.boolean(); }
bool is_boolean(const val& v) { return v.is(kind::boolean); }
bool is_callable(const val& v) { return v.is_undefined() || (v.is(kind::instance) && v.object().callable()); }
bool is_defined(const val& v) { return !v.is_undefined(); }
bool is_undefined(const val& v) { return v.is_undefined(); }
bool is_escaped(const val& v) { return v.is_string() && v.markup(); }
bool is_real(const val& v) { return v.is(kind::real); }
bool is_integer(const val& v) { return v.is(kind::integer); }
bool is_number(const val& v) { return v.is_number(); }
bool is_iterable(const val& v) { return iterable(v); }
bool is_mapping(const val& v) { return v.is(kind::dict); }
bool is_none(const val& v) { return v.is(kind::none); }
bool is_string(const val& v) { return v.is_string(); }
bool is_sequence(const val& v) { return iterable(v) && !v.is(kind::view) && !v.is(kind::iterator); }

bool divides(runtime& rt, const val& v, const val& by) {
  return equal(rt, binary(rt, ast::op::mod, v, by), val::of(wide{0}));
}

bool divisible_by(runtime& rt, const val& v, arguments& args) {
  return divides(rt, v, bound("divisibleby", args, {"num"}, 1)[0]);
}

bool even(runtime& rt, const val& v, arguments& args) {
  const bound none("even", args, {});
  return divides(rt, v, val::of(wide{2}));
}

bool odd(runtime& rt, const val& v, arguments& args) {
  const bound none("odd", args, {});
  return equal(rt, binary(rt, ast::op::mod, v, val::of(wide{2})), val::of(wide{1}));
}

template <ast::op Op>
bool compares(runtime& rt, const val& v, arguments& args) {
  return compare(rt, Op, v, bound("comparison", args, {"other"}, 1)[0]);
}

bool same_as(runtime& rt, const val& v, arguments& args) {
  const val other = bound("sameas", args, {"other"}, 1)[0];
  if (v.is_string()) rt.scan(v.string().size());
  return same(v, other);
}

template <bool Upper>
bool of_case(runtime& rt, const val& v, arguments& args) {
  const bound none("test", args, {});
  arguments no_arguments;
  return truth(find_string_method(Upper ? "isupper" : "islower")(rt, str_of(rt, v), no_arguments));
}

bool names_filter(runtime&, const val& v, arguments& args) {
  const bound none("filter", args, {});
  return v.is_string() && find_filter(v.view()) != nullptr;
}

bool names_test(runtime&, const val& v, arguments& args) {
  const bound none("test", args, {});
  return v.is_string() && find_test(v.view()) != nullptr;
}

constexpr std::array<test_entry, 39> entries = {{
    {"!=", compares<ast::op::ne>},
    {"<", compares<ast::op::lt>},
    {"<=", compares<ast::op::le>},
    {"==", compares<ast::op::eq>},
    {">", compares<ast::op::gt>},
    {">=", compares<ast::op::ge>},
    {"boolean", plain<is_boolean>},
    {"callable", plain<is_callable>},
    {"defined", plain<is_defined>},
    {"divisibleby", divisible_by},
    {"eq", compares<ast::op::eq>},
    {"equalto", compares<ast::op::eq>},
    {"escaped", plain<is_escaped>},
    {"even", even},
    {"false", plain<is_false>},
    {"filter", names_filter},
    {"float", plain<is_real>},
    {"ge", compares<ast::op::ge>},
    {"greaterthan", compares<ast::op::gt>},
    {"gt", compares<ast::op::gt>},
    {"in", compares<ast::op::in>},
    {"integer", plain<is_integer>},
    {"iterable", plain<is_iterable>},
    {"le", compares<ast::op::le>},
    {"lessthan", compares<ast::op::lt>},
    {"lower", of_case<false>},
    {"lt", compares<ast::op::lt>},
    {"mapping", plain<is_mapping>},
    {"ne", compares<ast::op::ne>},
    {"none", plain<is_none>},
    {"number", plain<is_number>},
    {"odd", odd},
    {"sameas", same_as},
    {"sequence", plain<is_sequence>},
    {"string", plain<is_string>},
    {"test", names_test},
    {"true", plain<is_true>},
    {"undefined", plain<is_undefined>},
    {"upper", of_case<true>},
}};

}  // namespace

const test_entry* find_test(std::string_view name) {
  const auto* it = std::find_if(entries.begin(), entries.end(), [&](const test_entry& e) { return e.name == name; });
  return it == entries.end() ? nullptr : it;
}

}  // namespace kvern::chat
