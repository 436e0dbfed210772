#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

/// Expected texts are those of Python 3.11 with jinja2 3.1.6, set up as in tests/golden/chat.
constexpr std::pair<std::string_view, std::string_view> cases[] = {
    {"{% for i in items %}{{ i }}{% if not loop.last %},{% endif %}{% else %}none{% endfor %}", "3,1,2"},
    {"{% for i in items if i > 9 %}x{% else %}none{% endfor %}", "none"},
    {"{% set x = 1 %}{% for i in items %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}", "4 2 3 1"},
    {"{% for i in items %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}{% for i in items %}{% break %}{% "
     "else %}E{% endfor %}",
     "32E"},
    {"{% for i in [1] %}{% continue %}{% else %}E{% endfor %}", "E"},
    {"{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "123"},
    {"{% for a, b in [(1,)] %}{% endfor %}", "!template_type"},
    {"{% with a=1, b=2 %}{{ a + b }}{% endwith %}{{ a is defined }}", "3False"},
    {"{% with a=1 %}{% with a=2, b=a %}{{ a }}{{ b }}{% endwith %}{% endwith %}", "21"},
    {"{% set x %}a{{ user }}{% endset %}{{ x }}{% set y | upper %}b{% endset %}{{ y }}", "aAnnB"},
    {"{% filter upper %}a{{ user }}{% endfilter %}", "AANN"},
    {"{% set x = 1 %}{% filter upper %}{% set x = 2 %}{{ x }}{% endfilter %}{{ x }}", "21"},
    {"{% block b %}in{{ user }}{% endblock %}{{ self.b() }}", "inAnninAnn"},
    {"{% for i in [1] %}{% block c %}{{ i is defined }}{% endblock %}{% block d scoped %}{{ i is defined }}{% endblock "
     "%}{% endfor %}",
     "FalseTrue"},
    {"{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d) = [3, 4] %}{{ c }}{{ d }}", "1234"},
    {"{% set d = {} %}{% set d.x = 1 %}", "!template_runtime"},
    {"{% if missing %}a{% elif items %}b{% else %}c{% endif %}", "b"},
    {"{% print 1, 'a' %}", "1a"},
    {"{% generation %}{{ user }}{% set q = 1 %}{% endgeneration %}{{ q is defined }}", "AnnFalse"},
    {"{% include 'x' %}", "!template_type"},
    {"{% if false %}{% include 'x' %}{% endif %}ok", "ok"},
    {"{% set ns = namespace(n=0) %}{% for i in items if ns.n < 2 %}{% set ns.n = ns.n + 1 %}{{ i }}{% endfor %}", "31"},
    {"{% for k in big %}{{ k }}{% endfor %}{% for c in 'añ' %}{{ c }}.{% endfor %}", "bAca.ñ."},
};

TEST(evaluator, runs_statements_as_jinja_does) {
  for (const auto& [source, expected] : cases) EXPECT_EQ(test::run(source, test::sample()), expected) << source;
}

}  // namespace
}  // namespace kvern::chat
