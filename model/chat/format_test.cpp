#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

/// Expected texts are those of Python 3.11 with jinja2 3.1.6, set up as in tests/golden/chat.
constexpr std::pair<std::string_view, std::string_view> cases[] = {
    {"{{ '%s|%10s|%-10s|%.2s' % ('a', 'b', 'c', 'def') }}", "a|         b|c         |de"},
    {"{{ '%d|%5d|%-5d|%05d|%+d|% d|%x|%X|%o|%#x' % (1, 2, 3, 4, 5, 6, 255, 255, 8, 255) }}",
     "1|    2|3    |00004|+5| 6|ff|FF|10|0xff"},
    {"{{ '%f|%.1f|%e|%g|%G|%8.3f' % (1.5, 2.25, 12345.678, 0.0001, 1e20, 3.14159) }}",
     "1.500000|2.2|1.234568e+04|0.0001|1E+20|   3.142"},
    {"{{ '%(a)s-%(b)d' % {'a': 1, 'b': 2} }}", "1-2"},
    {"{{ '%r %s %%' % ('x', none) }}", "'x' None %"},
    {"{{ '%c%c' % ('a', 98) }}", "ab"},
    {"{{ '%d' % 'x' }}", "!template_type"},
    {"{{ '%s %s' % 'x' }}", "!template_type"},
    {"{{ '%s' % ('a', 'b') }}", "!template_type"},
    {"{{ '%*d' % (5, 3) }}", "    3"},
    {"{{ '%s' % [1, 2] }}", "[1, 2]"},
    {"{{ '{} {} {{}}'.format(1, 'a') }} {{ '{1}{0}'.format('a', 'b') }} {{ '{x.name}'.format(x=people[0]) }}",
     "1 a {} ba bob"},
    {"{{ '{0[name]} {1[0]}'.format(people[0], items) }}", "bob 3"},
    {"{{ '{!r} {!s}'.format('a', 'b') }}", "'a' b"},
    {"{{ '{:>{w}}|'.format('a', w=5) }}", "    a|"},
    {"{{ '{' .format() }}", "!template_type"},
    {"{{ '{}{}'.format(1) }}", "!template_type"},
    {"{{ '{a}'.format_map({'a': 7}) }}", "7"},
    {"{{ '%s=%s'|format('a', 1) }} {{ '%(k)s'|format(k=3) }}", "a=1 3"},
    {"{{ '%i %u' % (3.9, -2.1) }}", "3 -2"},
    {"{{ '%.3d|%5.3d' % (7, 7) }}", "007|  007"},
};

TEST(format, fills_in_as_python_does) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(test::run(source, test::sample()), expected) << source;
}

}  // namespace
}  // namespace kvern::chat
