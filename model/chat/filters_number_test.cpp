#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

/// Expected texts are those of Python 3.11 with jinja2 3.1.6, set up as in tests/golden/chat.
constexpr std::pair<std::string_view, std::string_view> cases[] = {
    {"{{ -3|abs }}{{ -3.5|abs }}{{ true|abs }}", "33.51"},
    {"{{ 'x'|abs }}", "!template_type"},
    {"{{ '12'|int }} {{ ' -7 '|int }} {{ '3.99'|int }} {{ 'x'|int }} {{ 'x'|int(default=5) }} {{ '0x1A'|int(base=16) "
     "}} {{ 'ff'|int(0, 16) }} {{ '0b101'|int(0, 2) }} {{ '1_000'|int }} {{ none|int(7) }} {{ []|int }} {{ true|int }} "
     "{{ 3.99|int }} {{ '1e2'|int }} {{ '0x10'|int(base=0) }} {{ '010'|int(base=0) }}",
     "12 -7 3 0 5 26 255 5 1000 7 0 1 3 100 16 10"},
    {"{{ '1.5'|float }} {{ 'x'|float }} {{ 'x'|float(2.5) }} {{ 5|float }} {{ 'nan'|float }} {{ '-inf'|float }} {{ "
     "'1_0.5'|float }} {{ ' 2 '|float }} {{ '1e400'|float }}",
     "1.5 0.0 2.5 5.0 nan -inf 10.5 2.0 inf"},
    {"{{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 1234.5|round(-2) }} {{ 1250|round(-2) }} {{ "
     "1350|round(-2) }} {{ 5|round }} {{ 2.1|round(method='ceil') }} {{ 2.9|round(0, 'floor') }} {{ 2.123|round(2, "
     "'ceil') }} {{ -0.4|round }}",
     "2.0 4.0 2.67 1200.0 1200 1400 5 3.0 2.0 2.13 -0.0"},
    {"{{ 1|round(0, 'up') }}", "!template_runtime"},
    {"{{ missing|float }}", "!template_undefined"},
    {"{{ missing|round }}", "!template_type"},
    {"{{ 15|round(-1) }} {{ 25|round(-1) }} {{ -15|round(-1) }} {{ true|round }}", "20 20 -20 1"},
    {"{% set a = -170141183460469231731687303715884105727 %}{{ a|round(-37) }} {{ (-a)|round(-36) }}",
     "-170000000000000000000000000000000000000 170000000000000000000000000000000000000"},
    {"{{ (-170141183460469231731687303715884105727)|round(-38) }}", "!template_limit"},
};

TEST(filters_number, are_those_of_jinja) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(test::run(source, test::sample()), expected) << source;
}

}  // namespace
}  // namespace kvern::chat
