#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

/// Expected texts are those of Python 3.11 with jinja2 3.1.6, set up as in tests/golden/chat.
constexpr std::pair<std::string_view, std::string_view> cases[] = {
    {"{{ 1 if true }}{{ 1 if false }}|{{ 'a' if 0 else 'b' if 1 else 'c' }}|{{ 1 if 1 if 0 else 2 }}", "1|b|2"},
    {"{{ (1 if false).x }}", "!template_undefined"},
    {"{{ not true or true }}{{ not (true or true) }}{{ not not 1 }}{{ 0 or '' or 'x' }}{{ 1 and 'y' }}{{ none and 1 }}",
     "TrueFalseTruexyNone"},
    {"{{ 1 < 2 < 3 }}{{ 3 > 2 > 2 }}{{ 1 == 1 != 2 }}{{ 1 in [1] == true }}", "TrueFalseTrueFalse"},
    {"{{ 'a' ~ 1 ~ none ~ [1] ~ missing }}", "a1None[1]"},
    {"{{ -2 ** 2 }}{{ 2 ** 3 ** 2 }}{{ -1|abs }}{{ 1 + 2 * 3 - 4 / 2 }}", "46415.0"},
    {"{{ dict(*[[('a', 1)]], **{'b': 2}) }}", "{'a': 1, 'b': 2}"},
    {"{{ dict(**[1]) }}", "!template_type"},
    {"{{ dict(a=1, **{'a': 2}) }}", "!template_type"},
    {"{{ {'a': 1, 'a': 2} }}{{ [1, [2, (3,)]] }}{{ {} }}", "{'a': 2}[1, [2, (3,)]]{}"},
    {"{{ user.upper().lower().title() }}{{ user|upper|lower is string }}", "AnnTrue"},
    {"{{ items[items[1]] }}{{ {'k': [10, 20]}['k'][1] }}", "120"},
    {"{{ false and missing.x }}{{ true or missing.x }}", "FalseTrue"},
    {"{{ 1 + }}", "!template_syntax"},
    {"{{ (1, 2)[0] + [3][0] }}", "4"},
    {"{{ 5 is odd and 4 is not odd }}{{ not 5 is odd }}", "TrueFalse"},
    {"{{ 'x' if user is string else 'y' }}{{ missing.a if missing else 'z' }}", "xz"},
    {"{{ [1,2,3][1:][0] }}{{ items[1,2] }}|", "2|"},
};

TEST(evaluator_expression, evaluates_as_jinja_does) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(test::run(source, test::sample()), expected) << source;
}

}  // namespace
}  // namespace kvern::chat
