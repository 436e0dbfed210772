#include "ipc/chat_value.hpp"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "ipc/json_reader.hpp"

namespace kvern::ipc {
namespace {

parsed<chat::value> messages(std::string_view text) {
  const auto d = parse_json(text);
  return to_messages(d->root().get_array());
}

TEST(to_chat_value, keeps_order_and_kinds) {
  const auto d = parse_json(R"({"z":1,"a":1.0,"m":[true,null,"s"],"b":{}})");
  const auto v = to_chat_value(d->root(), "tools");
  ASSERT_TRUE(v);
  const chat::object& o = *v->as_object();
  ASSERT_EQ(o.size(), 4u);
  EXPECT_EQ(o[0].first, "z");
  EXPECT_EQ(*o[0].second.as_int(), 1);
  EXPECT_EQ(o[1].first, "a");
  EXPECT_EQ(*o[1].second.as_double(), 1.0);
  EXPECT_EQ(o[1].second.as_int(), nullptr);
  EXPECT_EQ(o[2].first, "m");
  EXPECT_TRUE(*(*o[2].second.as_array())[0].as_bool());
  EXPECT_TRUE((*o[2].second.as_array())[1].is_null());
  EXPECT_EQ(*(*o[2].second.as_array())[2].as_string(), "s");
  EXPECT_TRUE(o[3].second.as_object()->empty());
}

TEST(to_chat_value, refuses_numbers_that_fit_nothing) {
  const auto d = parse_json(R"({"a":[18446744073709551615]})");
  const auto v = to_chat_value(d->root(), "tools");
  ASSERT_FALSE(v);
  EXPECT_EQ(v.error().param, "tools");
}

TEST(to_messages, passes_fields_and_parts_through) {
  const auto v = messages(R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
                              {"role":"assistant","content":null,"tool_calls":[{"id":"1"}]},
                              {"role":"tool","tool_call_id":"1","content":"r"}])");
  ASSERT_TRUE(v);
  const chat::array& list = *v->as_array();
  ASSERT_EQ(list.size(), 3u);
  const chat::array& parts = *(*list[0].as_object())[1].second.as_array();
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(*(*parts[1].as_object())[1].second.as_string(), "b");
  EXPECT_TRUE((*list[1].as_object())[1].second.is_null());
  EXPECT_EQ((*list[1].as_object())[2].second.as_array()->size(), 1u);
  EXPECT_EQ((*list[2].as_object())[1].first, "tool_call_id");
}

/// tool_calls[0].function.arguments of a message that has them as `arguments`, a JSON value.
chat::value arguments(const std::string& json) {
  const auto v =
      messages(R"([{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":)" + json + "}}]}]");
  EXPECT_TRUE(v) << json;
  const chat::object& message = *(*v->as_array())[0].as_object();
  const chat::object& call = *(*message[1].second.as_array())[0].as_object();
  EXPECT_EQ(*call[0].second.as_string(), "1");
  const chat::object& function = *call[1].second.as_object();
  EXPECT_EQ(*function[0].second.as_string(), "f");
  return function[1].second;
}

TEST(to_messages, hands_the_object_in_a_tool_call_s_arguments_on) {
  const chat::value parsed = arguments(R"("{\"z\": 1, \"a\": [\"x\", 1.0]}")");
  ASSERT_TRUE(parsed.as_object());
  const chat::object& o = *parsed.as_object();
  ASSERT_EQ(o.size(), 2u);
  EXPECT_EQ(o[0].first, "z");
  EXPECT_EQ(*o[0].second.as_int(), 1);
  EXPECT_EQ(*(*o[1].second.as_array())[1].as_double(), 1.0);
  EXPECT_TRUE(arguments(R"("{}")").as_object()->empty());
  EXPECT_EQ(arguments(R"({"already":"parsed"})").as_object()->size(), 1u);
}

TEST(to_messages, leaves_arguments_that_hold_no_object_as_they_are) {
  for (const std::string text :
       {"", "no JSON", "{", "[1]", "3", "null", "{'a': 1}", "{} {}", R"({"a": 18446744073709551615})"}) {
    std::string quoted = boost::json::serialize(boost::json::string(text));
    const chat::value v = arguments(quoted);
    ASSERT_TRUE(v.as_string()) << text;
    EXPECT_EQ(*v.as_string(), text);
  }
  const std::string deep = "{\"a\":" + std::string(100, '[') + std::string(100, ']') + "}";
  EXPECT_TRUE(arguments(boost::json::serialize(boost::json::string(deep))).as_string());
  EXPECT_TRUE(arguments("null").is_null());
  EXPECT_TRUE(
      messages(R"([{"role":"assistant","tool_calls":null},{"role":"assistant","tool_calls":[1,{"function":2}]}])"));
}

TEST(to_messages, an_absent_content_is_null) {
  const auto got = messages(R"([{"role":"assistant","tool_calls":[]}])");
  ASSERT_TRUE(got);
  const chat::object& message = *(*got->as_array())[0].as_object();
  ASSERT_EQ(message.back().first, "content");
  EXPECT_TRUE(message.back().second.is_null());
}

TEST(has_too_many_values, counts_what_is_nested) {
  const auto nested = [](std::size_t items) {
    boost::json::array inner(items, boost::json::value(1));
    return boost::json::value{{"a", std::move(inner)}};
  };
  EXPECT_FALSE(has_too_many_values(nested(max_chat_values - 2)));
  EXPECT_TRUE(has_too_many_values(nested(max_chat_values - 1)));
}

TEST(to_messages, names_what_is_wrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "messages"},
      {"[3]", "messages[0]"},
      {R"([{"role":"user","content":"x"},{"content":"x"}])", "messages[1].role"},
      {R"([{"role":1}])", "messages[0].role"},
      {R"([{"role":"user","content":3}])", "messages[0].content"},
      {R"([{"role":"user","content":[{"type":"image_url"}]}])", "messages[0].content[0].type"},
      {R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0].text"},
      {R"([{"role":"user","content":["x"]}])", "messages[0].content[0]"},
      {R"([{"role":"user","content":"x","audio":{"id":"1"}}])", "messages[0].audio"},
  };
  for (const auto& [text, param] : cases) {
    const auto v = messages(text);
    ASSERT_FALSE(v) << text;
    EXPECT_EQ(v.error().param, param);
    EXPECT_NE(v.error().why.message.find(param), std::string::npos);
  }
}

}  // namespace
}  // namespace kvern::ipc
