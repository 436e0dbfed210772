#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

/// Expected texts are those of Python 3.11 with jinja2 3.1.6, set up as in tests/golden/chat.
constexpr std::pair<std::string_view, std::string_view> cases[] = {
    {"{{ '<a href=\"x\">&\\'</a>'|e }}", "&lt;a href=&#34;x&#34;&gt;&amp;&#39;&lt;/a&gt;"},
    {"{{ '<'|e|e }} {{ '<'|e|forceescape }} {{ '<'|safe|e }}", "&lt; &amp;lt; <"},
    {"{{ ' <p>Hello <b>big</b>\n  world</p><!-- no --> &amp; &lt;x&gt;'|striptags }}", "Hello big world & <x>"},
    {"{{ 'a b/c?d=é&~'|urlencode }} {{ {'a b': 'c/d', 'e': 1}|urlencode }}", "a%20b/c%3Fd%3D%C3%A9%26~ a+b=c%2Fd&e=1"},
    {"{{ 5|e }} {{ none|e }} {{ ['<']|e }}", "5 None [&#39;&lt;&#39;]"},
    {"{{ '<'|e is escaped }} {{ '<' is escaped }}", "True False"},
    {"{{ ('<b>%s</b>'|safe) % '<i>' }}", "<b>&lt;i&gt;</b>"},
};

TEST(markup, escapes_as_python_does) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(test::run(source, test::sample()), expected) << source;
}

}  // namespace
}  // namespace kvern::chat
