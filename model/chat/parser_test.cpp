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

TEST(parser, takes_what_jinja_takes) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(test::run(source, test::sample()), expected) << source;
}

}  // namespace
}  // namespace kvern::chat
