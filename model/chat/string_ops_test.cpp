#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

/// Expected texts are those of Python 3.11 with jinja2 3.1.6, set up as in tests/golden/chat.
constexpr std::pair<std::string_view, std::string_view> cases[] = {
    {"{{ 'ſtraßE İi ǅ'.upper() }}|{{ 'ſtraßE İI ǅ'.lower() }}|{{ 'ſtraßE İi ǆ'.title() }}",
     "STRASSE İI Ǆ|ſtraße i̇i ǆ|Straße İi ǅ"},
    {"{{ 'a\\u00a0b c'.split() }}{{ 'a\\u00a0b c'.split(none, 1) }}{{ ''.split() }}{{ ''.split('x') }}{{ "
     "'xx'.split('x') }}",
     "['a', 'b', 'c']['a', 'b c'][]['']['', '', '']"},
    {"{{ 'aXXbXXc'.rsplit('XX', 1) }}{{ 'aaa'.rsplit('aa', 1) }}{{ 'a b'.rsplit(' ', 0) }}",
     "['aXXb', 'c']['a', '']['a b']"},
    {"{{ 'aaaa'.replace('aa', 'b') }}{{ 'añ'.replace('', '-') }}{{ 'añ'.replace('', '-', 2) }}{{ 'abc'.replace('x', "
     "'y') }}",
     "bb-a-ñ--a-ñabc"},
    {"{{ 'éaé'.strip('é') }}{{ ' \\x1f\\x85a\\x85 '.strip() }}|{{ 'aaa'.strip('a') }}|", "aa||"},
    {"{{ 'a\\x1cb\\x85c\\r\\rd\\n'.splitlines() }}{{ '\\n'.splitlines() }}{{ ''.splitlines() }}",
     "['a', 'b', 'c', '', 'd'][''][]"},
    {"{{ ['a', 1, none]|join('é') }}", "aé1éNone"},
};

TEST(string_ops, keep_to_python) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(test::run(source, test::sample()), expected) << source;
}

}  // namespace
}  // namespace kvern::chat
