#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

/// Expected texts are those of Python 3.11 with jinja2 3.1.6, set up as in tests/golden/chat.
constexpr std::pair<std::string_view, std::string_view> cases[] = {
    {"{{ {'a': 1}.items()|list }}{{ {'a': 1}.keys()|list }}{{ {'a': 1}.values()|list }}{{ {'a': 1}.get('b') }}{{ {'a': "
     "1}.get('a') }}",
     "[('a', 1)]['a'][1]None1"},
    {"{{ {}.fromkeys(['x', 'y'], 0) }}{{ {'a': 1}.copy() }}", "{'x': 0, 'y': 0}{'a': 1}"},
    {"{{ [1, 2, 1].count(1) }}{{ [1, 2].index(2) }}{{ (1, 2, 2).count(2) }}{{ ['a', 'b', 'a'].index('a', 1) }}",
     "2122"},
    {"{{ [1].index(5) }}", "!template_type"},
    {"{{ [1].pop() }}", "!template_security"},
    {"{{ {}.update({}) }}", "!template_security"},
    {"{{ (1.0).is_integer() }}{{ (5).bit_length() }}{{ (1.5).is_integer() }}", "True3False"},
    {"{{ {'a': 1}.get() }}", "!template_type"},
    {"{{ {'a': 1}.get([]) }}", "!template_type"},
    {"{{ [1].nope() }}", "!template_undefined"},
    {"{{ (1,).copy is defined }}", "False"},
};

TEST(methods_container, are_those_of_list_and_dict) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(test::run(source, test::sample()), expected) << source;
}

}  // namespace
}  // namespace kvern::chat
