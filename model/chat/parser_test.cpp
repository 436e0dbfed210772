#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

/// Expected texts are those of Python 3.11 with jinja2 3.1.6, set up as in tests/golden/chat.
constexpr std::pair<std::string_view, std::string_view> cases[] = {
    {"{% for %}{% endfor %}", "!template_syntax"},
    {"{% if x %}", "!template_syntax"},
    {"{% endif %}", "!template_syntax"},
    {"{% set %}", "!template_syntax"},
    {"{{ a b }}", "!template_syntax"},
    {"{{ [1, }}", "!template_syntax"},
    {"{{ {1: } }}", "!template_syntax"},
    {"{{ (1 }}", "!template_syntax"},
    {"{% macro m(a=1, b) %}{% endmacro %}", "!template_syntax"},
    {"{% block a %}{% endblock a %}ok", "ok"},
    {"{% nope %}", "!template_syntax"},
    {"{{ 1 }}{% raw %}{{ 2 }}{% endraw %}{# c #}", "1{{ 2 }}"},
    {"{% if true: %}x{% endif %}", "x"},
};

TEST(parser, bounds_names_that_it_compares_with_one_another) {
  const auto many = [](int count, const char* before, const char* each, const char* after) {
    std::string source = before;
    for (int i = 0; i < count; ++i) source += fmt::format(fmt::runtime(each), i);
    return test::run(source + after);
  };
  EXPECT_EQ(many(1000, "{{ dict(", "k{}=1,", ")|length }}"), "1000");
  EXPECT_EQ(many(1001, "{{ dict(", "k{}=1,", ")|length }}"), "!template_syntax");
  EXPECT_EQ(many(1000, "{% macro m(k", ", k{}", ") %}{% endmacro %}"), "!template_syntax");
  EXPECT_EQ(many(1001, "", "{{% block b{} %}}{{% endblock %}}", ""), "!template_syntax");
}

TEST(parser, takes_what_jinja_takes) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(test::run(source, test::sample()), expected) << source;
}

}  // namespace
}  // namespace kvern::chat
