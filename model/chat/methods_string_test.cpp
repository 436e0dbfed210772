#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

/// Expected texts are those of Python 3.11 with jinja2 3.1.6, set up as in tests/golden/chat.
constexpr std::pair<std::string_view, std::string_view> cases[] = {
    {"{{ 'a b'.title() }}{{ 'aB'.swapcase() }}{{ 'ABC'.lower() }}{{ 'hello wORLD'.capitalize() }}",
     "A BAbabcHello world"},
    {"{{ ' a '.strip() }}|{{ 'xax'.strip('x') }}|{{ 'éaé'.lstrip('é') }}|{{ 'a\\u2003'.rstrip() }}|{{ none_ is defined "
     "}}",
     "a|a|aé|a|False"},
    {"{{ 'a,b,c'.rsplit(',', 1) }}{{ ' a b  c '.rsplit(none, 1) }}{{ ' a b  c '.split(none, 1) }}{{ 'a'.rsplit() }}",
     "['a,b', 'c'][' a b', 'c']['a', 'b  c ']['a']"},
    {"{{ 'banana'.find('an', 2) }}{{ 'banana'.rfind('an') }}{{ 'banana'.find('x') }}{{ 'banana'.count('a', 2, 5) }}{{ "
     "'ñañ'.find('a') }}{{ 'abc'.find('', 4) }}{{ 'abc'.find('', 3) }}",
     "33-111-13"},
    {"{{ 'abc'.index('x') }}", "!template_type"},
    {"{{ 'abc'.startswith('b', 1) }}{{ 'abc'.endswith(('x','c')) }}{{ 'abc'.endswith('b', 0, 2) }}", "TrueTrueTrue"},
    {"{{ 'abc'.startswith(5) }}", "!template_type"},
    {"{{ 'x'.center(4) }}|{{ 'xy'.center(5, '-') }}|{{ 'x'.ljust(3, '.') }}|{{ 'x'.rjust(3) }}|{{ '-7'.zfill(4) }}|{{ "
     "'+'.zfill(3) }}",
     " x  |--xy-|x..|  x|-007|+00"},
    {"{{ 'x'.center(5, 'ab') }}", "!template_type"},
    {"{{ 'a-b-c'.partition('-') }}{{ 'a-b-c'.rpartition('-') }}{{ 'abc'.partition('x') }}{{ 'abc'.rpartition('x') }}",
     "('a', '-', 'b-c')('a-b', '-', 'c')('abc', '', '')('', '', 'abc')"},
    {"{{ 'a\\tb\\n\\tc'.expandtabs(4) }}", "a   b\n    c"},
    {"{{ 'ab12'.isalnum() }}{{ '²'.isdigit() }}{{ '²'.isdecimal() }}{{ '½'.isnumeric() }}{{ ''.isalpha() }}{{ "
     "'ª'.islower() }}{{ 'Hello World'.istitle() }}{{ 'a_1'.isidentifier() }}{{ 'é'.isascii() }}{{ "
     "'a\\n'.isprintable() }}{{ 'A1'.isupper() }}{{ '1'.isupper() }}",
     "TrueTrueFalseTrueFalseTrueTrueTrueFalseFalseTrueFalse"},
    {"{{ 'aXbX'.replace('X', '-', 1) }}{{ 'aa'.replace('', '.') }}{{ 'abc'.replace('b', '') }}", "a-bX.a.a.ac"},
    {"{{ '-'.join(['a', 'b']) }}{{ ''.join('abc') }}{{ ','.join({'k': 1}) }}", "a-babck"},
    {"{{ '-'.join([1]) }}", "!template_type"},
    {"{{ 'a\\nb\\r\\nc\\x0bd\\u2028e'.splitlines() }}{{ 'a\\nb'.splitlines(true) }}",
     "['a', 'b', 'c', 'd', 'e']['a\\n', 'b']"},
    {"{{ 'pre'.removeprefix('p') }}{{ 'pre'.removesuffix('x') }}", "repre"},
    {"{{ 'a'.upper(1) }}", "!template_type"},
    {"{{ 'aa'.split('') }}", "!template_type"},
    {"{{ 'ΑΣ ΑΣΑ Σ'.lower() }}{{ 'ǆ ŉ'.title() }}{{ 'ﬁx'.capitalize() }}{{ 'ß'.swapcase() }}", "ας ασα σǅ ʼNFixSS"},
};

TEST(methods_string, are_those_of_str) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(test::run(source, test::sample()), expected) << source;
}

}  // namespace
}  // namespace kvern::chat
