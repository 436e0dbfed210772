#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

/// Expected texts are those of Python 3.11 with jinja2 3.1.6, set up as in tests/golden/chat.
constexpr std::pair<std::string_view, std::string_view> cases[] = {
    {"{{ user.upper() }}{{ user['lower']() }}{{ items.0 }}{{ items[-1] }}", "ANNann32"},
    {"{{ big.c.d }}{{ big['c']['d'] }}{{ big.nope }}|{{ items[9] }}|{{ items['x'] }}", "é\né\n||"},
    {"{{ text[1:5] }}|{{ text[::-1] }}|{{ text[-3:] }}|{{ 'añ灯b'[1:3] }}|{{ 'añ灯b'[::2] }}|{{ 'añ灯b'[9:] }}",
     "ne t|eerht\nowt eno|ree|ñ灯|a灯|"},
    {"{{ items[::-1] }}{{ items[:1] }}{{ items[5:1] }}{{ items[-2:] }}{{ range(10)[2:8:3]|list }}{{ range(9)[-1] }}",
     "[2, 1, 3][3][][1, 2][2, 5]8"},
    {"{{ none[1:] }}|{{ 5[1:] }}|{{ {}[1:] }}|{{ [1]['a':] }}", "|||"},
    {"{{ big[1:] }}", "!template_type"},
    {"{{ items['a':] }}", "!template_type"},
    {"{% set n = none %}{{ n[1:] }}", "!template_type"},
    {"{{ ''.__class__.x }}", "!template_security"},
    {"{{ items.append }}|{{ items.append(1) }}", "!template_security"},
    {"{{ missing[1:] }}", "!template_undefined"},
    {"{{ (1,2,3)[1:] }}{{ 'abc'[true] }}{{ [1,2][1.0] }}|", "(2, 3)b|"},
    {"{{ big.get('c').get('zz', 'dflt') }}", "dflt"},
    {"{{ range(3)[::4294967294][::4294967294][::4294967294][::4294967294] }}", "!template_limit"},
};

TEST(access, finds_what_python_finds) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(test::run(source, test::sample()), expected) << source;
}

}  // namespace
}  // namespace kvern::chat
