#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

/// Expected texts are those of Python 3.11 with jinja2 3.1.6, set up as in tests/golden/chat.
constexpr std::pair<std::string_view, std::string_view> cases[] = {
    {"{{ 1 == true }} {{ 1 == 1.0 }} {{ 'a' == 1 }} {{ [1,[2]] == [1,[2.0]] }} {{ (1,) == [1] }} {{ {'a':1,'b':2} == "
     "{'b':2,'a':1} }}",
     "True True False True False True"},
    {"{{ [1,2] < [1,3] }} {{ (1,) < (1,0) }} {{ 'a' < 'B' }} {{ 2 > 1.5 }} {{ true < 2 }}",
     "True True False True True"},
    {"{{ none < none }}", "!template_type"},
    {"{{ [1] < (2,) }}", "!template_type"},
    {"{{ 'é' > 'z' }} {{ '灯' > 'é' }}", "True True"},
    {"{{ 2 in range(0,10,2) }} {{ 3 in range(0,10,2) }} {{ 2.0 in range(3) }} {{ 'x' in range(3) }}",
     "True False True False"},
    {"{{ 'b' in big }} {{ 'zz' in big }} {{ 1 in items }} {{ '' in '' }}", "True False True True"},
    {"{{ [] in {} }}", "!template_type"},
    {"{{ 1 in 'a' }}", "!template_type"},
    {"{{ none == missing }} {{ missing == missing2 }} {{ missing in [1] }}", "False True False"},
    {"{{ {} < {} }}", "!template_type"},
    {"{{ 9007199254740993 == 9007199254740992.0 }} {{ 1e400 > 5 }}", "False True"},
    {"{{ items|length }} {{ 'añ'|length }} {{ big.keys()|length }} {{ range(7)|length }}", "3 2 3 7"},
    {"{{ items() }}", "!template_type"},
    {"{{ (1, [2])|unique|list }}", "!template_type"},
    {"{{ {(1,2): 3}[(1,2)] }} {{ {1.0: 'f'}[1] }} {{ {true: 'b'}[1] }}", "3 f b"},
};

TEST(operators, compare_as_python_does) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(test::run(source, test::sample()), expected) << source;
}

}  // namespace
}  // namespace kvern::chat
