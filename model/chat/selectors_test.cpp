#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

/// Expected texts are those of Python 3.11 with jinja2 3.1.6, set up as in tests/golden/chat.
constexpr std::pair<std::string_view, std::string_view> cases[] = {
    {"{{ [{'a': {'b': [5, 6]}}]|map(attribute='a.b.1')|list }}", "[6]"},
    {"{{ [[7, 8]]|map(attribute=1)|list }}{{ [[7, 8]]|map(attribute='0')|list }}", "[8][7]"},
    {"{{ [{'a': 1}]|map(attribute='a.b.c')|list }}", "!template_undefined"},
    {"{{ ['B', 'a', 'C']|sort }}{{ ['B', 'a', 'C']|max }}", "['a', 'B', 'C']C"},
    {"{{ ['x']|map(attribute='upper')|first is callable }}", "True"},
};

TEST(selectors, walk_attributes_as_jinja_does) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(test::run(source, test::sample()), expected) << source;
}

}  // namespace
}  // namespace kvern::chat
