#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

/// Expected texts are those of Python 3.11 with jinja2 3.1.6, set up as in tests/golden/chat.
constexpr std::pair<std::string_view, std::string_view> cases[] = {
    {"{{ [1.0, 0.1, 1e22, 1e-7, 123456.789, 5e-324, 1.7976931348623157e308, 1e15, 1e16, 0.0001, 0.00001] }}",
     "[1.0, 0.1, 1e+22, 1e-07, 123456.789, 5e-324, 1.7976931348623157e+308, 1000000000000000.0, 1e+16, 0.0001, 1e-05]"},
    {"{{ ['a\\'b', 'a\"b', '\\x00\\x1f\\x7f', '\\u00e9\\u200b\\u3000\\U0001F600', '\\\\', '\\r\\t'] }}",
     "[\"a'b\", 'a\"b', '\\x00\\x1f\\x7f', 'é\\u200b\\u3000😀', '\\\\', '\\r\\t']"},
    {"{{ (1,) }}{{ () }}{{ {} }}{{ [] }}{{ [none, true] }}", "(1,)(){}[][None, True]"},
    {"{{ big.keys() }}{{ big.values() }}{{ {'k': 1}.items() }}",
     "dict_keys(['b', 'A', 'c'])dict_values([1, [1, 2.5, None, True], {'d': 'é\\n'}])dict_items([('k', 1)])"},
    {"{{ range(3) }}{{ range(1,9,2) }}", "range(0, 3)range(1, 9, 2)"},
    {"{{ ['<'|e] }}", "[Markup('&lt;')]"},
    {"{{ [missing] }}", "[Undefined]"},
    {"{{ 2 ** 100 }} {{ -(2 ** 100) }}", "1267650600228229401496703205376 -1267650600228229401496703205376"},
    {"{{ 1e400 }} {{ -1e400 }} {{ 1e400 - 1e400 }}", "inf -inf nan"},
};

TEST(print, writes_values_as_python_does) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(test::run(source, test::sample()), expected) << source;
}

}  // namespace
}  // namespace kvern::chat
