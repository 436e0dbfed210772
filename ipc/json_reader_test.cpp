#include "ipc/json_reader.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>

namespace kvern::ipc {
namespace {

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(parse_json, takes_what_json_can_say) {
  const auto d = parse_json(R"({"a":[1,2.5,true,null,"\u00fc\ud83d\ude38\u0000x"]})");
  ASSERT_TRUE(d) << d.error().why.message;
  const auto& a = d->root().at("a").get_array();
  EXPECT_EQ(a[0].get_int64(), 1);
  EXPECT_EQ(a[1].get_double(), 2.5);
  EXPECT_EQ(a[4].get_string(), std::string("\xC3\xBC\xF0\x9F\x98\xB8\0x", 8));
}

TEST(parse_json, refuses_broken_texts) {
  for (const std::string text : {"",
                                 "{",
                                 "{\"a\":}",
                                 "[1,]",
                                 "nul",
                                 "{\"a\":1} x",
                                 "\xEF\xBB\xBF{}",
                                 "{'a':1}",
                                 "[01]",
                                 "[NaN]",
                                 "[Infinity]",
                                 "\"\\ud800\"",
                                 "\"\\udc00\"",
                                 "\"\\ud800\\ud800\"",
                                 "\"\\ud83dx\"",
                                 "\"\xFF\"",
                                 "\"\xC0\x80\"",
                                 "\"\xED\xA0\x80\"",
                                 "\"\xF0\x9F\x98\"",
                                 "\"\xF4\x90\x80\x80\"",
                                 "\"a\nb\"",
                                 "\"\\x\""}) {
    const auto d = parse_json(text);
    ASSERT_FALSE(d) << text;
    EXPECT_EQ(d.error().why.code, "invalid_json");
  }
}

TEST(parse_json, bounds_nesting_anywhere) {
  EXPECT_TRUE(parse_json(nested(max_json_depth)));
  EXPECT_FALSE(parse_json(nested(max_json_depth + 1)));
  const auto d = parse_json("{\"unknown\":" + nested(10'000) + "}");
  ASSERT_FALSE(d);
  EXPECT_NE(d.error().why.message.find("64"), std::string::npos);
  EXPECT_FALSE(parse_json("{\"unknown\":" + std::string(10'000, '[')));
  std::string objects;
  for (int i = 0; i < 10'000; ++i) objects += "{\"a\":";
  EXPECT_FALSE(parse_json(objects));
}

TEST(parse_json, bounds_memory) {
  // 12 MB of two-byte elements would take 24 bytes each, twice over.
  std::string many = "[0";
  for (int i = 0; i < 6'000'000; ++i) many += ",0";
  many += "]";
  const auto d = parse_json(many);
  ASSERT_FALSE(d);
  EXPECT_EQ(d.error().why.code, "invalid_json");
  EXPECT_TRUE(parse_json("\"" + std::string(12'000'000, 'x') + "\""));
}

TEST(parse_json, the_last_of_equal_keys_counts) {
  const auto d = parse_json(R"({"a":1,"b":2,"a":3})");
  ASSERT_TRUE(d);
  EXPECT_EQ(d->root().at("a").get_int64(), 3);
}

TEST(parse_json_object, wants_an_object) {
  EXPECT_TRUE(parse_json_object("{}"));
  EXPECT_FALSE(parse_json_object("[]"));
  EXPECT_FALSE(parse_json_object("3"));
  EXPECT_NE(parse_json_object("").error().why.message.find("empty"), std::string::npos);
}

class fields_of : public ::testing::Test {
 protected:
  static const boost::json::object& object(const json_document& d) { return d.root().get_object(); }
};

TEST_F(fields_of, read_typed_values) {
  const auto d =
      parse_json(R"({"b":true,"i":-3,"f":5.0,"d":0.5,"s":"x","n":null,"u":18446744073709551615,"o":{},"a":[]})");
  fields f(object(*d));
  EXPECT_EQ(f.boolean("b"), true);
  EXPECT_EQ(f.integer("i", -10, 10), -3);
  EXPECT_EQ(f.integer("f", -10, 10), 5);
  EXPECT_EQ(f.number("d", 0, 1), 0.5);
  EXPECT_EQ(f.number("i", -5, 5), -3.0);
  EXPECT_EQ(f.string("s"), "x");
  EXPECT_EQ(f.unsigned_integer("u"), UINT64_MAX);
  EXPECT_EQ(f.boolean("n"), std::nullopt);
  EXPECT_EQ(f.integer("absent", 0, 1), std::nullopt);
  EXPECT_NE(f.object("o"), nullptr);
  EXPECT_NE(f.array("a"), nullptr);
  EXPECT_FALSE(f.failure());
}

TEST_F(fields_of, name_the_first_wrong_field) {
  const auto d = parse_json(R"({"b":1,"s":2})");
  fields f(object(*d), "outer.");
  EXPECT_EQ(f.boolean("b"), std::nullopt);
  EXPECT_EQ(f.string("s"), std::nullopt);
  ASSERT_TRUE(f.failure());
  EXPECT_EQ(f.failure()->param, "outer.b");
  EXPECT_EQ(f.failure()->why.code, "invalid_request");
  EXPECT_EQ(f.failure()->why.message, "outer.b must be a boolean, not a number");
}

TEST_F(fields_of, refuse_numbers_out_of_range) {
  for (const char* text : {"1e999", "-1e999", "9223372036854775808", "18446744073709551615", "18446744073709551616",
                           "-1", "1.5", "true", "\"1\"", "[]", "1e300"}) {
    const auto d = parse_json(std::string("{\"x\":") + text + "}");
    if (!d) continue;  // refused even earlier
    fields f(object(*d));
    EXPECT_EQ(f.integer("x", 0, INT64_MAX), std::nullopt) << text;
    EXPECT_TRUE(f.failure()) << text;
  }
  for (const char* text : {"1e999", "-1e999", "-0.1", "2.1", "\"1\"", "false"}) {
    const auto d = parse_json(std::string("{\"x\":") + text + "}");
    if (!d) continue;
    fields f(object(*d));
    EXPECT_EQ(f.number("x", 0, 2), std::nullopt) << text;
    EXPECT_TRUE(f.failure()) << text;
  }
  for (const char* text : {"-1", "18446744073709551616", "1.5", "1e30", "\"1\""}) {
    const auto d = parse_json(std::string("{\"x\":") + text + "}");
    fields f(object(*d));
    EXPECT_EQ(f.unsigned_integer("x"), std::nullopt) << text;
    EXPECT_TRUE(f.failure()) << text;
  }
}

TEST_F(fields_of, refuse_only_what_is_set) {
  static constexpr std::array<std::string_view, 1> names{"x"};
  for (const char* off : {"null", "false", "0", "0.0", "\"\"", "[]", "{}"}) {
    const auto d = parse_json(std::string("{\"x\":") + off + "}");
    fields f(object(*d));
    f.refuse(names);
    EXPECT_FALSE(f.failure()) << off;
  }
  for (const char* on : {"true", "1", "-1", "\"a\"", "[0]", "{\"a\":0}", "0.5"}) {
    const auto d = parse_json(std::string("{\"x\":") + on + "}");
    fields f(object(*d));
    f.refuse(names);
    ASSERT_TRUE(f.failure()) << on;
    EXPECT_EQ(f.failure()->why.code, "unsupported");
  }
}

}  // namespace
}  // namespace kvern::ipc
