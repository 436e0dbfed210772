#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

/// Expected texts are those of Python 3.11 with jinja2 3.1.6, set up as in tests/golden/chat.
constexpr std::pair<std::string_view, std::string_view> cases[] = {
    {"{{ items|sort }}{{ items|sort(true) }}{{ ['b','A','a']|sort }}{{ ['b','A','a']|sort(case_sensitive=true) }}",
     "[1, 2, 3][3, 2, 1]['A', 'a', 'b']['A', 'a', 'b']"},
    {"{{ people|sort(attribute='age')|map(attribute='age')|list }}{{ "
     "people|sort(attribute='name,age')|map(attribute='age')|list }}{{ people|sort(attribute='name', "
     "reverse=true)|map(attribute='age')|list }}",
     "[1, 2, 4][2, 1, 4][4, 1, 2]"},
    {"{{ people|groupby('name') }}",
     "[('Al', [{'name': 'Al', 'age': 2}]), ('bob', [{'name': 'bob', 'age': 4}, {'name': 'bob', 'age': 1}])]"},
    {"{% for g in people|groupby('name') %}{{ g.grouper }}:{{ g.list|length }} {% endfor %}{% for k, v in "
     "people|groupby('zz', default='none') %}{{ k }}{{ v|length }}{% endfor %}",
     "Al:1 bob:2 none3"},
    {"{{ people|sum(attribute='age') }} {{ items|sum(start=10) }} {{ []|sum }}", "7 16 0"},
    {"{{ items|min }}{{ items|max }}{{ people|max(attribute='age') }}{{ []|max }}|{{ ['b','A']|min }}",
     "13{'name': 'bob', 'age': 4}|A"},
    {"{{ items|first }}{{ items|last }}{{ 'añ'|last }}{{ {'a':1,'b':2}|last }}{{ ''|last }}|", "32ñb|"},
    {"{{ items|map('string')|last }}", "!template_type"},
    {"{{ items|reverse|list }}{{ 'añb'|reverse }}{{ {'a':1,'b':2}|reverse|list }}{{ (items|reverse) is iterable }}",
     "[2, 1, 3]bña['b', 'a']True"},
    {"{{ items|join('-') }}{{ people|join(', ', attribute='name') }}{{ 'abc'|join('.') }}{{ {'a':1}|join }}",
     "3-1-2bob, Al, boba.b.ca"},
    {"{{ range(7)|batch(3)|list }}{{ range(7)|batch(3, 'x')|list }}{{ range(7)|slice(3)|list }}{{ range(7)|slice(3, "
     "'x')|list }}",
     "[[0, 1, 2], [3, 4, 5], [6]][[0, 1, 2], [3, 4, 5], [6, 'x', 'x']][[0, 1, 2], [3, 4], [5, 6]][[0, 1, 2], [3, 4, "
     "'x'], [5, 6, 'x']]"},
    {"{{ ['a','A','b']|unique|list }}{{ ['a','A']|unique(true)|list }}{{ "
     "people|unique(attribute='name')|map(attribute='age')|list }}",
     "['a', 'b']['a', 'A'][4, 2]"},
    {"{{ {'b':1,'A':3,'c':2}|dictsort }}{{ {'b':1,'A':3,'c':2}|dictsort(true) }}{{ "
     "{'b':1,'A':3,'c':2}|dictsort(by='value', reverse=true) }}",
     "[('A', 3), ('b', 1), ('c', 2)][('A', 3), ('b', 1), ('c', 2)][('A', 3), ('c', 2), ('b', 1)]"},
    {"{{ {'a':1}|dictsort(by='x') }}", "!template_runtime"},
    {"{{ big|items|list|length }}{{ big|list }}{{ 'ab'|list }}{{ big|count }}", "3['b', 'A', 'c']['a', 'b']3"},
    {"{{ 5|list }}", "!template_type"},
    {"{{ ['a', 1]|max }}", "!template_type"},
    {"{{ [[1]]|unique|list }}", "!template_type"},
};

TEST(filters_sequence, are_those_of_jinja) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(test::run(source, test::sample()), expected) << source;
}

}  // namespace
}  // namespace kvern::chat
