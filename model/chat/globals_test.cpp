#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

/// Expected texts are those of Python 3.11 with jinja2 3.1.6, set up as in tests/golden/chat.
constexpr std::pair<std::string_view, std::string_view> cases[] = {
    {"{{ range(3)|list }}{{ range(1, 4)|list }}{{ range(5, 0, -2)|list }}{{ range(0)|list }}",
     "[0, 1, 2][1, 2, 3][5, 3, 1][]"},
    {"{{ range(100000)|length }}", "100000"},
    {"{{ range(1.5) }}", "!template_type"},
    {"{{ range(1, 2, 3, 4) }}", "!template_type"},
    {"{{ dict(a=1, b=2) }}{{ dict([('x', 1)]) }}{{ dict({'a': 1}, a=2) }}{{ dict() }}",
     "{'a': 1, 'b': 2}{'x': 1}{'a': 2}{}"},
    {"{{ dict(1) }}", "!template_type"},
    {"{% set ns = namespace(a=1) %}{% set ns.b = 2 %}{{ ns.a + ns.b }}{{ ns.c is defined }}{{ ns['a'] }}", "3False1"},
    {"{% set c = cycler(1, 2) %}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.reset() }}{{ c.next() }}", "122None1"},
    {"{{ cycler() }}", "!template_type"},
    {"{% set j = joiner('; ') %}{{ j() }}a{{ j() }}b", "a; b"},
    {"{{ raise_exception('no') }}", "!template_raised"},
    {"{{ raise_exception() }}", "!template_type"},
};

TEST(globals, are_those_of_jinja) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(test::run(source, test::sample()), expected) << source;
}

}  // namespace
}  // namespace kvern::chat
