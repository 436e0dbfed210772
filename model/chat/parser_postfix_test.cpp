#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

/// Expected texts are those of Python 3.11 with jinja2 3.1.6, set up as in tests/golden/chat.
constexpr std::pair<std::string_view, std::string_view> cases[] = {
    {"{{ user.upper()[0].lower() }}{{ user|upper|first }}{{ user|replace('A', 'b')|upper }}", "aABNN"},
    {"{{ items|first.x }}", "!template_syntax"},
    {"{{ items[0:2:1] }}{{ items[:] }}{{ items[::] }}{{ items[1:] }}", "[3, 1][3, 1, 2][3, 1, 2][1, 2]"},
    {"{{ items[] }}", ""},
    {"{{ items[1:2:3:4] }}", "!template_syntax"},
    {"{{ user.}}", "!template_syntax"},
    {"{{ user|}}", "!template_syntax"},
    {"{{ 4 is divisibleby 2 }}{{ 4 is divisibleby(2) }}{{ 'a' is in 'abc' }}{{ 4 is not odd }}", "TrueTrueTrueTrue"},
    {"{{ dict(a=1,) }}{{ dict(a=1, a=2) }}", "!template_syntax"},
    {"{{ dict(**{}, a=1) }}", "!template_syntax"},
    {"{{ dict(a=1, 2) }}", "!template_syntax"},
    {"{{ user is string is string }}", "!template_syntax"},
    {"{{ -items[0] }}{{ items[0]|string }}{{ -items[0]|abs }}", "-333"},
    {"{{ user | upper () }}", "ANN"},
};

TEST(parser_postfix, binds_as_jinja_does) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(test::run(source, test::sample()), expected) << source;
}

}  // namespace
}  // namespace kvern::chat
