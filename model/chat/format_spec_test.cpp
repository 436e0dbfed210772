#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

/// Expected texts are those of Python 3.11 with jinja2 3.1.6, set up as in tests/golden/chat.
constexpr std::pair<std::string_view, std::string_view> cases[] = {
    {"{{ '{:5}|{:<5}|{:>5}|{:^5}|{:*^7}'.format('a', 'b', 'c', 'd', 'e') }}", "a    |b    |    c|  d  |***e***"},
    {"{{ '{:5}|{:<5}|{:05}|{:+}|{: }|{:,}|{:_}'.format(1, 2, 3, 4, 5, 1234567, 1234567) }}",
     "    1|2    |00003|+4| 5|1,234,567|1_234_567"},
    {"{{ '{:x}|{:#x}|{:X}|{:b}|{:#b}|{:o}|{:c}|{:n}'.format(255, 255, 255, 5, 5, 8, 97, 5) }}",
     "ff|0xff|FF|101|0b101|10|a|5"},
    {"{{ '{:.2f}|{:8.3f}|{:e}|{:g}|{:%}|{:.1%}|{}|{:.3}'.format(1.005, 2.5, 12345.678, 1e10, 0.25, 0.256, 1.0, "
     "3.14159) }}",
     "1.00|   2.500|1.234568e+04|1e+10|25.000000%|25.6%|1.0|3.14"},
    {"{{ '{:.3}|{:10.2}|'.format('abcdef', 'xyz') }}", "abc|xy        |"},
    {"{{ '{:,.2f}|{:+.1f}|{:010.2f}|{:<8.1f}|'.format(1234567.891, 2.0, -3.14159, 1.5) }}",
     "1,234,567.89|+2.0|-000003.14|1.5     |"},
    {"{{ '{:d}'.format('a') }}", "!template_type"},
    {"{{ '{:s}'.format(1) }}", "!template_type"},
    {"{{ '{:=5}|'.format('a') }}", "!template_type"},
    {"{{ '{:q}'.format(1) }}", "!template_type"},
    {"{{ '{:d}|{:5}|{}'.format(true, true, true) }}", "1|    1|True"},
    {"{{ '{:é>4}'.format('a') }}", "éééa"},
    {"{{ '{:f}'.format(3) }}", "3.000000"},
    {"{{ '{}|{:>6}'.format(none, 'x') }}", "None|     x"},
    {"{{ '{:>6}'.format(none) }}", "!template_type"},
    {"{{ '{:.0f} {:.0f} {:.0e}'.format(0.5, 1.5, 12345.0) }}", "0 2 1e+04"},
    {"{{ '{:06,}|{:05,}|{:04,}|{:012,.1f}|{:#o}|{:020_x}'.format(12, 12, 12, 1234.5, 8, 65535) }}",
     "00,012|0,012|0,012|00,001,234.5|0o10|0_0000_0000_0000_ffff"},
};

TEST(format_spec, lays_out_as_python_does) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(test::run(source, test::sample()), expected) << source;
}

}  // namespace
}  // namespace kvern::chat
