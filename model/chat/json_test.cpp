#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

/// Expected texts are those of Python 3.11 with jinja2 3.1.6, set up as in tests/golden/chat.
constexpr std::pair<std::string_view, std::string_view> cases[] = {
    {"{{ big|tojson }}", "{\"b\": 1, \"A\": [1, 2.5, null, true], \"c\": {\"d\": \"é\\n\"}}"},
    {"{{ big|tojson(indent=2) }}",
     "{\n  \"b\": 1,\n  \"A\": [\n    1,\n    2.5,\n    null,\n    true\n  ],\n  \"c\": {\n    \"d\": \"é\\n\"\n  "
     "}\n}"},
    {"{{ big|tojson(sort_keys=true) }}", "{\"A\": [1, 2.5, null, true], \"b\": 1, \"c\": {\"d\": \"é\\n\"}}"},
    {"{{ big|tojson(separators=(',', ':')) }}", "{\"b\":1,\"A\":[1,2.5,null,true],\"c\":{\"d\":\"é\\n\"}}"},
    {"{{ big|tojson(ensure_ascii=true, indent='\t') }}",
     "{\n\t\"b\": 1,\n\t\"A\": [\n\t\t1,\n\t\t2.5,\n\t\tnull,\n\t\ttrue\n\t],\n\t\"c\": {\n\t\t\"d\": "
     "\"\\u00e9\\n\"\n\t}\n}"},
    {"{{ '\\U0001F600\\u2028\"\\\\/\\x07'|tojson(true) }}", "\"\\ud83d\\ude00\\u2028\\\"\\\\/\\u0007\""},
    {"{{ [1, 2.0, 1e100, [], {}, (), none]|tojson }}", "[1, 2.0, 1e+100, [], {}, [], null]"},
    {"{{ {1: 2, none: 3, 1.5: 4, true: 5}|tojson }}", "{\"1\": 5, \"null\": 3, \"1.5\": 4}"},
    {"{{ {(1,): 2}|tojson }}", "!template_type"},
    {"{{ items|map('string')|tojson }}", "!template_type"},
    {"{{ [missing]|tojson }}", "!template_type"},
    {"{{ [[], {}, [[]]]|tojson(indent=1) }}", "[\n [],\n {},\n [\n  []\n ]\n]"},
    {"{{ {'b': 1, 2: 3}|tojson(sort_keys=true) }}", "!template_type"},
    {"{{ [1]|tojson(indent=0) }}", "[\n1\n]"},
    {"{{ '\\x7f\\u00a0'|tojson }}", "\"\177 \""},
};

TEST(json, is_what_json_dumps_writes) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(test::run(source, test::sample()), expected) << source;
}

}  // namespace
}  // namespace kvern::chat
