#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

/// Expected texts are those of Python 3.11 with jinja2 3.1.6, set up as in tests/golden/chat.
constexpr std::pair<std::string_view, std::string_view> cases[] = {
    {"{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}|{{ m(1, 3) }}|{{ m(c=4, a=5) }}",
     "121|131|524"},
    {"{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}", "False"},
    {"{% macro m(a) %}{{ a.x }}{% endmacro %}{{ m() }}", "!template_undefined"},
    {"{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, x=2) }}", "(1,){'x': 2}"},
    {"{% macro m() %}x{% endmacro %}{{ m(1) }}", "!template_type"},
    {"{% macro m() %}x{% endmacro %}{{ m(a=1) }}", "!template_type"},
    {"{% macro m(a) %}x{% endmacro %}{{ m(1, a=1) }}", "!template_type"},
    {"{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}b{{ user }}{% endcall %}", "[bAnn]"},
    {"{% macro m() %}{{ caller('p', q='r') }}{% endmacro %}{% call(a, q) m() %}{{ a }}{{ q }}{% endcall %}", "pr"},
    {"{% macro m() %}x{% endmacro %}{% call m() %}b{% endcall %}", "!template_type"},
    {"{% macro m() %}{% if caller %}c{% else %}n{% endif %}{% endmacro %}{{ m() }}", "n"},
    {"{% for i in items %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}{{ m is defined }}", "312False"},
    {"{% macro m(n) %}{{ n }}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(3) }}", "3210"},
    {"{% macro m(a, b=1) %}{% endmacro %}{{ m.name }}{{ m.arguments }}{{ m.catch_kwargs }}{{ m.catch_varargs }}{{ "
     "m.caller }}",
     "m('a', 'b')FalseFalseFalse"},
    {"{% macro m() %}{{ m2() }}{% endmacro %}{% macro m2() %}later{% endmacro %}{{ m() }}", "later"},
    {"{% call 5 %}{% endcall %}", "!template_syntax"},
    {"{{ [1]|map('upper')|list }}{% macro m(x) %}{{ x }}{% endmacro %}{{ m(*[1]) }}{{ m(**{'x': 2}) }}", "['1']12"},
};

TEST(macros, are_those_of_jinja) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(test::run(source, test::sample()), expected) << source;
}

}  // namespace
}  // namespace kvern::chat
