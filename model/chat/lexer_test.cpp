#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

/// Expected texts are those of Python 3.11 with jinja2 3.1.6, set up as in tests/golden/chat.
constexpr std::pair<std::string_view, std::string_view> cases[] = {
    {"a\n  {% if true %}\n  b\n  {% endif %}\nc", "a\n  b\nc"},
    {"a {%- if true -%} b {%- endif %} c", "ab c"},
    {"  {%+ if true +%}\n x{% endif %}", "  \n x"},
    {"{{- 1 -}} \n x", "1x"},
    {"x {{- 1 }}", "x1"},
    {"{# a -#}  b", "b"},
    {"a  {#- b #} c", "a c"},
    {"  {# b #}\nc", "c"},
    {"{% raw %} {{ x }} {% endraw %}\nb", " {{ x }} b"},
    {"{% raw -%}  a  {%- endraw %}b", "ab"},
    {"{%raw%}{%endraw%}", ""},
    {"{% raw %}{% endraw", "!template_syntax"},
    {"{{ '{{' }}{{ '%}' }}{{ \"}}\" }}", "{{%}}}"},
    {"{{ {'a':{}}}}", "{'a': {}}"},
    {"{ {% if 1 %}{{% endif %}", "!template_syntax"},
    {"a\r\nb\rc\n", "a\nb\nc"},
    {"\n\n", "\n"},
    {"{{ 1.5.x }}|{{ 1.real }}", "|1"},
    {"{{ 'a\nb' }}", "a\nb"},
    {"{{ a\n}}|{{+ 1 }}{{-1}}", "|11"},
    {"{{ 'unclosed }}", "!template_syntax"},
    {"{{ a ! b }}", "!template_syntax"},
    {"{{ a; b }}", "!template_syntax"},
    {"a{# unclosed", "!template_syntax"},
    {"　{% if true %}x{% endif %}", "x"},
    {"x\n　{% if true %}x{% endif %}", "x\nx"},
    {"{%- raw %}x{% endraw -%}  y", "xy"},
    {"{{ a-}}b", "b"},
    {"{{ é }}{% set é1_ = 2 %}{{ é1_ }}", "2"},
    {"{{ a§ }}", "!template_syntax"},
};

TEST(lexer, splits_as_jinja_does) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(test::run(source, test::sample()), expected) << source;
}

}  // namespace
}  // namespace kvern::chat
