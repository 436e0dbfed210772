#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

/// Expected texts are those of Python 3.11 with jinja2 3.1.6, set up as in tests/golden/chat.
constexpr std::pair<std::string_view, std::string_view> cases[] = {
    {"{{ people|map(attribute='name')|list }}{{ people|map('length')|list }}{{ items|map('string')|list }}{{ "
     "people|map(attribute='zz', default='d')|list }}",
     "['bob', 'Al', 'bob'][2, 2, 2]['3', '1', '2']['d', 'd', 'd']"},
    {"{{ items|map('nofilter')|list }}", "!template_runtime"},
    {"{{ items|map|list }}", "!template_runtime"},
    {"{{ items|map(attribute='x', foo=1)|list }}", "!template_runtime"},
    {"{{ items|select('gt', 1)|list }}{{ items|reject('odd')|list }}{{ [0, 1]|select|list }}{{ items|select('in', [1, "
     "2])|list }}",
     "[3, 2][2][1][1, 2]"},
    {"{{ people|selectattr('age', 'gt', 1)|map(attribute='age')|list }}{{ people|rejectattr('name', 'equalto', "
     "'bob')|list }}{{ people|selectattr('zz')|list }}{{ people|selectattr('zz', 'undefined')|list|length }}",
     "[4, 2][{'name': 'Al', 'age': 2}][]3"},
    {"{{ items|select('notest')|list }}", "!template_runtime"},
    {"{{ missing|d('x') }}{{ ''|default('y') }}{{ ''|default('y', true) }}{{ none|d }}", "xyNone"},
    {"{{ user|attr('upper') is callable }}{{ big|attr('b') is defined }}", "TrueFalse"},
    {"{{ (5|map('upper')) is defined }}", "True"},
    {"{{ 5|map('upper')|list }}", "!template_type"},
    {"{% set g = items|select %}{{ g|list }}{{ g|list }}", "[3, 1, 2][]"},
    {"{{ people|map(attribute='name')|map('upper')|select('equalto', 'BOB')|list|length }}", "2"},
    {"{{ [[1, 2], [3, 4]]|map(attribute=1)|list }}{{ [[1, 2]]|map('first')|list }}{{ ['a b']|map('replace', ' ', "
     "'_')|list }}",
     "[2, 4][1]['a_b']"},
};

TEST(filters_selection, are_those_of_jinja) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(test::run(source, test::sample()), expected) << source;
}

}  // namespace
}  // namespace kvern::chat
