#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

using namespace std::literals;

/// Expected texts are those of Python 3.11 with jinja2 3.1.6, set up as in tests/golden/chat.
constexpr std::pair<std::string_view, std::string_view> cases[] = {
    {"{{ 'a\\n\\t\\r\\\\\\'\\\"\\a\\b\\f\\v\\0' }}", "a\n\t\r\\'\"\007\010\014\013\000"sv},
    {"{{ '\\x41\\u00e9\\U0001F600\\101\\7' }}", "Aé😀A\007"},
    {"{{ '\\q\\8\\ ' }}", "\\q\\8\\ "},
    {"{{ '\\x4' }}", "!template_syntax"},
    {"{{ '\\u12' }}", "!template_syntax"},
    {"{{ '\\U00110000' }}", "!template_syntax"},
    {"{{ 'a\\\nb' }}", "ab"},
    {"{{ 'é灯' }}", "é灯"},
    {"{{ '\\1234' }}", "S4"},
};

TEST(string_literal, resolves_escapes_as_python_does) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(test::run(source, test::sample()), expected) << source;
}

}  // namespace
}  // namespace kvern::chat
