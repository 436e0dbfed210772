#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

/// Expected texts are those of Python 3.11 with jinja2 3.1.6, set up as in tests/golden/chat.
constexpr std::pair<std::string_view, std::string_view> cases[] = {
    {"{% for i in 'abc' %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ "
     "loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }}{{ loop.previtem }}{{ loop.nextitem }} {% endfor "
     "%}",
     "1032TrueFalse310b 2121FalseFalse310ac 3210FalseTrue310b "},
    {"{% for i in items|map('string') %}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ i }} {% endfor %}",
     "False333 False321 True312 "},
    {"{% for i in items|map('string') %}{{ loop.nextitem }}{{ i }}{{ loop.length }} {% endfor %}", "133 213 23 "},
    {"{% for i in items %}{{ loop.cycle('a', 'b') }}{{ loop.changed(i > 1) }}{% endfor %}", "aTruebTrueaTrue"},
    {"{% for n in [[1, [2, [3]]]] recursive %}{% if n is iterable %}[{{ loop(n) }}]{% else %}{{ n }}@{{ loop.depth "
     "}}{% endif %}{% endfor %}",
     "[1@2[2@3[3@4]]]"},
    {"{% for i in items %}{{ loop([1]) }}{% endfor %}", "!template_type"},
    {"{% for i in items %}{{ loop.cycle() }}{% endfor %}", "!template_type"},
    {"{% for i in items %}{% for j in items %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}",
     "1231 1232 1233 "},
    {"{{ loop }}", ""},
    {"{% for i in [1] %}{% set o = loop %}{% endfor %}{{ o is defined }}", "False"},
};

TEST(loop_context, is_that_of_jinja) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(test::run(source, test::sample()), expected) << source;
}

}  // namespace
}  // namespace kvern::chat
