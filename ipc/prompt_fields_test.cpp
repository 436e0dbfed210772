#include "ipc/prompt_fields.hpp"

#include <gtest/gtest.h>

namespace kvern::ipc {
namespace {

struct read_result {
  std::vector<kvern::prompt> prompts;
  chat_prompt chat;
  std::optional<request_error> failure;
};

read_result prompts(std::string_view text) {
  const auto d = parse_json_object(text);
  fields f(d->root().get_object());
  read_result r;
  r.prompts = read_prompts(f, 100);
  r.failure = f.failure();
  return r;
}

read_result chat(std::string_view text) {
  const auto d = parse_json_object(text);
  fields f(d->root().get_object());
  read_result r;
  r.chat = read_chat(f);
  r.failure = f.failure();
  return r;
}

TEST(read_prompts, takes_all_four_shapes) {
  auto r = prompts(R"({"prompt":"hi","add_special_tokens":false,"parse_special":true})");
  ASSERT_EQ(r.prompts.size(), 1u);
  EXPECT_EQ(std::get<text_prompt>(r.prompts[0]).text, "hi");
  EXPECT_FALSE(std::get<text_prompt>(r.prompts[0]).add_special);
  EXPECT_TRUE(std::get<text_prompt>(r.prompts[0]).parse_special);

  r = prompts(R"({"prompt":["a","b"]})");
  ASSERT_EQ(r.prompts.size(), 2u);
  EXPECT_EQ(std::get<text_prompt>(r.prompts[1]).text, "b");
  EXPECT_TRUE(std::get<text_prompt>(r.prompts[1]).add_special);
  EXPECT_FALSE(std::get<text_prompt>(r.prompts[1]).parse_special);

  r = prompts(R"({"prompt":[1,2,99]})");
  ASSERT_EQ(r.prompts.size(), 1u);
  EXPECT_EQ(std::get<std::vector<token_id>>(r.prompts[0]), (std::vector<token_id>{1, 2, 99}));

  r = prompts(R"({"prompt":[[1],[2,3]]})");
  ASSERT_EQ(r.prompts.size(), 2u);
  EXPECT_EQ(std::get<std::vector<token_id>>(r.prompts[1]), (std::vector<token_id>{2, 3}));
}

TEST(read_prompts, refuses_everything_else) {
  for (const char* text : {"{}", R"({"prompt":null})", R"({"prompt":3})", R"({"prompt":[]})", R"({"prompt":{}})",
                           R"({"prompt":[1,"a"]})", R"({"prompt":["a",1]})", R"({"prompt":["a",["b"]]})",
                           R"({"prompt":[100]})", R"({"prompt":[-1]})", R"({"prompt":[1.5]})", R"({"prompt":[[1],2]})",
                           R"({"prompt":[[1],[9223372036854775808]]})", R"({"prompt":[true]})"}) {
    const auto r = prompts(text);
    ASSERT_TRUE(r.failure) << text;
    EXPECT_EQ(r.failure->param, "prompt");
  }
}

TEST(read_chat, passes_tools_and_arguments) {
  const auto r = chat(R"({"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function"}],"tool_choice":"auto",
    "reasoning_effort":"low","chat_template_kwargs":{"enable_thinking":false},"add_generation_prompt":false})");
  ASSERT_FALSE(r.failure);
  EXPECT_EQ(r.chat.messages.as_array()->size(), 1u);
  EXPECT_EQ(r.chat.tools.as_array()->size(), 1u);
  EXPECT_FALSE(r.chat.add_generation_prompt);
  const chat::object& arguments = *r.chat.arguments.as_object();
  ASSERT_EQ(arguments.size(), 2u);
  EXPECT_EQ(arguments[0].first, "reasoning_effort");
  EXPECT_EQ(arguments[1].first, "enable_thinking");
}

TEST(read_chat, leaves_tools_out_when_none_may_be_called) {
  const auto r = chat(R"({"messages":[{"role":"user"}],"tools":[{"type":"function"}],"tool_choice":"none"})");
  ASSERT_FALSE(r.failure);
  EXPECT_TRUE(r.chat.tools.is_null());
  EXPECT_TRUE(r.chat.arguments.is_null());
  EXPECT_TRUE(r.chat.add_generation_prompt);
}

TEST(read_chat, lets_callers_say_that_the_last_message_is_continued) {
  EXPECT_FALSE(chat(R"({"messages":[{"role":"assistant"}],"continue_final_message":true})").failure);
  EXPECT_FALSE(chat(R"({"messages":[{"role":"user"}],"continue_final_message":false})").failure);
  EXPECT_TRUE(chat(R"({"messages":[{"role":"user"}],"continue_final_message":true})").failure);
  EXPECT_TRUE(chat(R"({"messages":[{"role":"assistant"}],"continue_final_message":false})").failure);
}

TEST(read_chat, names_what_is_wrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"{}", "messages"},
      {R"({"messages":"x"})", "messages"},
      {R"({"messages":[{"role":"user"}],"tool_choice":"required"})", "tool_choice"},
      {R"({"messages":[{"role":"user"}],"tool_choice":{"type":"function"}})", "tool_choice"},
      {R"({"messages":[{"role":"user"}],"tools":{}})", "tools"},
      {R"({"messages":[{"role":"user"}],"tools":[1]})", "tools"},
      {R"({"messages":[{"role":"user"}],"tools":[{}],"parallel_tool_calls":false})", "parallel_tool_calls"},
      {R"({"messages":[{"role":"user"}],"chat_template_kwargs":[]})", "chat_template_kwargs"},
      {R"({"messages":[{"role":"user"}],"chat_template_kwargs":{"messages":[]}})", "chat_template_kwargs"},
      {R"({"messages":[{"role":"user"}],"add_generation_prompt":1})", "add_generation_prompt"},
      {R"({"messages":[{"role":"user","content":1}]})", "messages[0].content"},
  };
  for (const auto& [text, param] : cases) {
    const auto r = chat(text);
    ASSERT_TRUE(r.failure) << text;
    EXPECT_EQ(r.failure->param, param);
    EXPECT_EQ(r.failure->why.message.find(param), 0u) << r.failure->why.message;
    EXPECT_EQ(r.failure->why.message.find(param, 1), std::string::npos) << r.failure->why.message;
  }
}

}  // namespace
}  // namespace kvern::ipc
