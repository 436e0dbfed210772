#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

/// Expected texts are those of Python 3.11 with jinja2 3.1.6, set up as in tests/golden/chat.
constexpr std::pair<std::string_view, std::string_view> cases[] = {
    {"{{ text|indent }}", "one two\n    three"},
    {"{{ 'a\\n\\nb\\n'|indent(2) }}|", "a\n\n  b\n|"},
    {"{{ 'a\\n\\nb\\n'|indent(2, true, true) }}|", "  a\n  \n  b\n  |"},
    {"{{ ''|indent(2, true) }}|", "  |"},
    {"{{ '\\n'|indent(2) }}|", "\n|"},
    {"{{ 'a\\r\\nb\\x0bc'|indent('> ') }}", "a\n> b\n> c"},
    {"{{ 5|indent }}", "!template_type"},
    {"{{ 'foo bar baz qux'|truncate(9) }}|{{ 'foo bar baz qux'|truncate(9, true) }}|{{ 'foo bar baz qux'|truncate(11) "
     "}}|{{ 'foo bar baz qux'|truncate(11, false, '..', 0) }}|{{ 'abc'|truncate(1, end='') }}",
     "foo...|foo ba...|foo bar baz qux|foo bar..|abc"},
    {"{{ 'x'|center(5) }}|{{ 12|center(7) }}|", "  x  |   12  |"},
    {"{{ 1|filesizeformat }} {{ 999|filesizeformat }} {{ 1000|filesizeformat }} {{ 1234567|filesizeformat }} {{ "
     "1048576|filesizeformat(true) }} {{ '300'|filesizeformat }} {{ 1e30|filesizeformat }}",
     "1 Byte 999 Bytes 1.0 kB 1.2 MB 1.0 MiB 300 Bytes 1000000.0 YB"},
};

TEST(filters_layout, are_those_of_jinja) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(test::run(source, test::sample()), expected) << source;
}

}  // namespace
}  // namespace kvern::chat
