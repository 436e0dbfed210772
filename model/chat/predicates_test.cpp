#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

/// Expected texts are those of Python 3.11 with jinja2 3.1.6, set up as in tests/golden/chat.
constexpr std::pair<std::string_view, std::string_view> cases[] = {
    {"{{ 1 is integer }}{{ true is integer }}{{ 1.0 is float }}{{ true is number }}{{ 'a' is number }}{{ 1 is boolean "
     "}}",
     "TrueFalseTrueTrueFalseFalse"},
    {"{{ 'a' is string }}{{ [] is sequence }}{{ {} is sequence }}{{ 'a' is sequence }}{{ 5 is sequence }}{{ {}.keys() "
     "is sequence }}{{ (items|map('string')) is sequence }}{{ {} is mapping }}",
     "TrueTrueTrueTrueFalseFalseFalseTrue"},
    {"{{ 'a' is iterable }}{{ 5 is iterable }}{{ range(2) is iterable }}{{ none is iterable }}", "TrueFalseTrueFalse"},
    {"{{ 3 is odd }}{{ 2.0 is even }}{{ 9 is divisibleby 3 }}{{ 9 is divisibleby(2) }}", "TrueTrueTrueFalse"},
    {"{{ 'a' is even }}", "!template_type"},
    {"{{ 1 is divisibleby 0 }}", "!template_type"},
    {"{{ 1 is sameas 1 }}{{ [] is sameas [] }}{{ items is sameas items }}{{ true is sameas 1 }}", "TrueFalseTrueFalse"},
    {"{{ 'abc' is lower }}{{ 'ABC' is upper }}{{ 5 is lower }}", "TrueTrueFalse"},
    {"{{ range is callable }}{{ 'a' is callable }}{{ user.upper is callable }}{{ missing is callable }}",
     "TrueFalseTrueTrue"},
    {"{{ 1 is lessthan 2 }}{{ 2 is greaterthan 1 }}{{ 1 is ne 1 }}{{ 1 is not eq 2 }}{{ 1 is in [1] }}{{ 'u' is in "
     "user }}",
     "TrueTrueFalseTrueTrueFalse"},
    {"{{ 'upper' is filter }}{{ 'nope' is filter }}{{ 'odd' is test }}{{ 'nope' is test }}", "TrueFalseTrueFalse"},
    {"{{ missing is defined }}{{ missing is undefined }}{{ none is none }}{{ none is defined }}{{ true is true }}{{ 1 "
     "is false }}",
     "FalseTrueTrueTrueTrueFalse"},
    {"{{ 1 is 1 }}", "!template_syntax"},
    {"{{ 1 is defined is true }}", "!template_syntax"},
};

TEST(predicates, are_those_of_jinja) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(test::run(source, test::sample()), expected) << source;
}

}  // namespace
}  // namespace kvern::chat
