#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

/// Expected texts are those of Python 3.11 with jinja2 3.1.6, set up as in tests/golden/chat.
constexpr std::pair<std::string_view, std::string_view> cases[] = {
    {"{{ 7 // -2 }} {{ -7 % 2 }} {{ 7.5 // -2 }} {{ -7.5 % 2 }} {{ 5.0 % -3 }} {{ 0.0 // 1 }} {{ -0.0 }}",
     "-4 1 -4.0 0.5 -1.0 0.0 -0.0"},
    {"{{ 2 ** 100 }} {{ (-3) ** 3 }} {{ 2 ** 0.5 }} {{ 4 ** -1 }} {{ 0 ** 0 }}",
     "1267650600228229401496703205376 -27 1.4142135623730951 0.25 1"},
    {"{{ 0 ** -1 }}", "!template_type"},
    {"{{ 1.0 / 0 }}", "!template_type"},
    {"{{ [1] * 2 + [3] }}{{ 2 * 'ab' }}{{ 'ab' * -1 }}|{{ (1,) * 2 }}", "[1, 1, 3]abab|(1, 1)"},
    {"{{ true + 1.5 }} {{ 10 / 4 }} {{ 1e308 * 10 - 1e308 * 10 }}", "2.5 2.5 nan"},
    {"{{ 'a' - 'b' }}", "!template_type"},
    {"{{ {} + {} }}", "!template_type"},
    {"{{ 1 + none }}", "!template_type"},
    {"{{ +true }} {{ --5 }} {{ -1.5 }}", "1 5 -1.5"},
    {"{{ ('<'|e) + '<' }} {{ '<' + ('<'|safe) }}", "&lt;&lt; &lt;<"},
    {"{{ 3 * 1.1 }} {{ 1e16 + 1 }} {{ 123456789 * 987654321 }}", "3.3000000000000003 1e+16 121932631112635269"},
    {"{% set a = -170141183460469231731687303715884105727 %}{% set b = 30000000000000000000000000000000000000 %}"
     "{{ a % b }} {{ a // b }} {{ a % -b }} {{ a // -b }} {{ a in range(9, 20) }}",
     "9858816539530768268312696284115894273 -6 -20141183460469231731687303715884105727 5 False"},
};

TEST(arithmetic, counts_as_python_does) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(test::run(source, test::sample()), expected) << source;
}

}  // namespace
}  // namespace kvern::chat
