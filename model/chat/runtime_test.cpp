#include "model/chat/runtime.hpp"

#include <gtest/gtest.h>

#include "model/chat/operators.hpp"
#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

render_limits small(std::uint64_t steps, std::uint64_t memory = 1u << 20, std::uint64_t output = 1u << 20) {
  render_limits l;
  l.steps = steps;
  l.memory_bytes = memory;
  l.output_bytes = output;
  return l;
}

TEST(runtime, steps_memory_and_output_are_bounded) {
  EXPECT_EQ(test::run("{% for i in range(1000) %}{% endfor %}", object{}, small(500)), "!template_limit");
  EXPECT_EQ(test::run("{% for i in range(100) %}{% endfor %}", object{}, small(5000)), "");
  EXPECT_EQ(test::run("{{ ('a' * 4000)|length }}", object{}, small(5000, 3000)), "!template_limit");
  EXPECT_EQ(test::run("{{ 'a' * 4000 }}", object{}, small(5000, 1u << 20, 3000)), "!template_limit");
}

TEST(runtime, nesting_of_values_and_calls_is_bounded) {
  EXPECT_EQ(test::run("{% set n = namespace(x=[]) %}{% for i in range(5000) %}{% set n.x = [n.x] %}{% endfor %}"),
            "!template_recursion");
  EXPECT_EQ(
      test::run("{% set n = namespace(x=[]) %}{% for i in range(150) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x }}"),
      "!template_recursion");
  EXPECT_EQ(test::run("{% set n = namespace(x={}) %}{% for i in range(5000) %}{% set n.x = {1: n.x} %}{% endfor %}"),
            "!template_recursion");
  std::string chain = "{{ [1]";
  for (int i = 0; i < 50000; ++i) chain += "|map('string')";
  EXPECT_EQ(test::run(chain + "|list }}"), "!template_recursion");
}

TEST(runtime, cycles_are_no_leak_and_no_hang) {
  EXPECT_EQ(test::run("{% set n = namespace() %}{% set n.x = n %}{{ n.x.x is sameas n }}"), "True");
  EXPECT_EQ(test::run("{% set n = namespace() %}{% set n.x = [n] %}{{ n.x }}"), "!template_recursion");
  EXPECT_EQ(test::run("{% set n = namespace() %}{% set n.x = n %}{{ n|tojson }}"), "!template_type");
}

TEST(runtime, deep_data_is_refused) {
  value v = 1;
  for (int i = 0; i < 1000; ++i) v = array{v};
  EXPECT_EQ(test::run("{{ x|length }}", object{{"x", v}}), "!template_recursion");
  EXPECT_EQ(test::run("unused", object{{"x", v}}), "unused");
}

TEST(runtime, strings_that_grow_at_their_end_do_not_disturb_others) {
  runtime rt({}, 1);
  const text ab = joined(rt, rt.string("a", true).string(), rt.string("b").string());
  const text abc = joined(rt, ab, rt.string("c").string());
  const text abd = joined(rt, ab, rt.string("d").string());
  const text twice = joined(rt, abc, abc);
  EXPECT_EQ(ab.view(), "ab");
  EXPECT_EQ(abc.view(), "abc");
  EXPECT_EQ(abd.view(), "abd");
  EXPECT_EQ(twice.view(), "abcabc");
  EXPECT_TRUE(twice.trusted_at(3));
  EXPECT_FALSE(twice.trusted_at(4));
}

TEST(runtime, dicts_find_keys_of_equal_value) {
  runtime rt({}, 1);
  std::vector<std::pair<val, val>> items;
  for (int i = 0; i < 1000; ++i) items.emplace_back(rt.string("k" + std::to_string(i)), val::of(static_cast<wide>(i)));
  items.emplace_back(val::of(static_cast<wide>(1)), val::of(true));
  const val d = rt.dict(items);
  EXPECT_TRUE(equal(rt, *d.dict().find("k777"), val::of(static_cast<wide>(777))));
  EXPECT_EQ(d.dict().find("k1000"), nullptr);
  EXPECT_NE(d.dict().find(rt, val::of(1.0)), nullptr);
  EXPECT_NE(d.dict().find(rt, val::of(true)), nullptr);
  EXPECT_EQ(d.dict().find(rt, val::of(2.0)), nullptr);
}

}  // namespace
}  // namespace kvern::chat
