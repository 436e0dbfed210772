#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

/// Expected texts are those of Python 3.11 with jinja2 3.1.6, set up as in tests/golden/chat.
constexpr std::pair<std::string_view, std::string_view> cases[] = {
    {"{{ 1 + 2 ~ 3 }}", "!template_type"},
    {"{{ 'a' ~ 1 + 'b' }}", "a1b"},
    {"{{ 2 * 3 ~ 4 }}{{ 1 ~ 2 == '12' }}", "64True"},
    {"{{ not 1 in [2] }}{{ 1 not in [2] }}{{ - 1 ** 2 }}", "TrueTrue1"},
    {"{{ 1, 2 }}{{ (1,) }}{{ () }}{{ (1) }}", "(1, 2)(1,)()1"},
    {"{{ 0x10 + 0b11 + 0o7 + 1_0 }}{{ 1.5e1 }}{{ 00 }}", "3615.00"},
    {"{{ 'a' \"b\" 'c' }}", "abc"},
    {"{{ a if b }}|", "|"},
    {"{{ true }}{{ True }}{{ none }}{{ None }}", "TrueTrueNoneNone"},
    {"{{ 1 if 1 else 2 if 1 else 3 }}", "1"},
    {"{{ 3 // 2 * 2 % 2 - 1 }}", "-1"},
    {"{{ 010 }}", "!template_syntax"},
    {"{{ 1__0 }}", "!template_syntax"},
    {"{{ . }}", "!template_syntax"},
    {"{{ 1 +* 2 }}", "!template_syntax"},
};

TEST(parser_expression, binds_as_jinja_does) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(test::run(source, test::sample()), expected) << source;
}

}  // namespace
}  // namespace kvern::chat
