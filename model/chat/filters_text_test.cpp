#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

/// Expected texts are those of Python 3.11 with jinja2 3.1.6, set up as in tests/golden/chat.
constexpr std::pair<std::string_view, std::string_view> cases[] = {
    {"{{ 'abc DEF'|upper }}{{ 'abc DEF'|lower }}{{ 'abc DEF'|capitalize }}{{ 5|upper }}", "ABC DEFabc defAbc def5"},
    {"{{ \"they're bill's [x] {y} <z>-w\"|title }}{{ 'ΑΣ ΒΣ'|title }}", "They're Bill's [X] {Y} <Z>-WΑσ Βσ"},
    {"{{ '  x '|trim }}|{{ 'xyx'|trim('x') }}|{{ 5|trim }}", "x|y|5"},
    {"{{ 'aXbX'|replace('X', 'y', 1) }}{{ 515|replace(5, 6) }}", "aybX616"},
    {"{{ 'a'|replace('a') }}", "!template_type"},
    {"{{ [1]|string }}{{ none|string }}", "[1]None"},
    {"{{ 'one two,three  4 d_e'|wordcount }}", "5"},
    {"{{ '%s %s'|format('a', 'b') }}", "a b"},
    {"{{ '%s'|format('a', x=1) }}", "!template_runtime"},
    {"{{ missing|upper }}|{{ missing|trim }}|{{ missing|wordcount }}", "||0"},
};

TEST(filters_text, are_those_of_jinja) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(test::run(source, test::sample()), expected) << source;
}

}  // namespace
}  // namespace kvern::chat
