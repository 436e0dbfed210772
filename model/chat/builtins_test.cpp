#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

/// Expected texts are those of Python 3.11 with jinja2 3.1.6, set up as in tests/golden/chat.
constexpr std::pair<std::string_view, std::string_view> cases[] = {
    {"{{ 'a'|nofilter }}", "!template_syntax"},
    {"{% if false %}{{ 'a'|nofilter }}{% endif %}ok", "ok"},
    {"{% if true %}{{ 'a'|nofilter }}{% endif %}", "!template_runtime"},
    {"{{ 'a'|nofilter if false else 'ok' }}", "ok"},
    {"{% if false %}{% for x in [] %}{{ x|nofilter }}{% endfor %}{% endif %}", "!template_syntax"},
    {"{{ 1 is notest }}", "!template_syntax"},
    {"{% if false and 1 is notest %}{% endif %}ok", "ok"},
    {"{{ 'a'|upper.lower }}", "!template_syntax"},
};

TEST(builtins, fail_only_where_they_are_reached) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(test::run(source, test::sample()), expected) << source;
}

}  // namespace
}  // namespace kvern::chat
