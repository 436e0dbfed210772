#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

/// Expected texts are those of Python 3.11 with jinja2 3.1.6, set up as in tests/golden/chat.
constexpr std::pair<std::string_view, std::string_view> cases[] = {
    {"{% for a in b if c recursive %}{% endfor %}ok", "ok"},
    {"{% for a in items recursive if true %}{% endfor %}", "!template_syntax"},
    {"{% for loop in items %}{% endfor %}", "!template_syntax"},
    {"{% set a.b.c = 1 %}", "!template_syntax"},
    {"{% set a[0] = 1 %}", "!template_syntax"},
    {"{% set none = 1 %}", "!template_syntax"},
    {"{% call m %}{% endcall %}", "!template_syntax"},
    {"{% filter %}{% endfilter %}", "!template_syntax"},
    {"{% with %}x{% endwith %}", "x"},
    {"{% with a %}{% endwith %}", "!template_syntax"},
    {"{% break %}", "!template_syntax"},
    {"{% for i in items %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}", "!template_syntax"},
    {"{% block a %}{% endblock %}{% block a %}{% endblock %}", "!template_syntax"},
    {"{% if 1 %}{% else %}{% else %}{% endif %}", "!template_syntax"},
    {"{% if 1 %}{% elif %}{% endif %}", "!template_syntax"},
    {"{% import 'a' as b %}", "!template_type"},
    {"{% from 'a' import b, c as d with context %}", "!template_type"},
    {"{% extends 'a' %}", "!template_type"},
    {"{% include 'a' ignore missing with context %}", "!template_type"},
    {"{% print %}ok", "ok"},
    {"{% do 1 %}", "!template_syntax"},
    {"{% set x = 1, 2 %}{{ x }}", "(1, 2)"},
};

TEST(parser_statement, takes_what_jinja_takes) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(test::run(source, test::sample()), expected) << source;
}

}  // namespace
}  // namespace kvern::chat
