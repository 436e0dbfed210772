#include "model/chat/chat_prompt.hpp"

#include <gtest/gtest.h>

#include "model/chat/test_support.hpp"

namespace kvern::chat {
namespace {

constexpr std::string_view chatml =
    "{{ bos_token }}{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor "
    "%}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

value say(std::string role, value content) {
  return object{{"role", std::move(role)}, {"content", std::move(content)}};
}

struct rendering {
  std::string text, error;
};

rendering chat(std::string_view source, array messages, bool generate = true, const value& arguments = nullptr) {
  const auto compiled = chat_template::compile(source);
  EXPECT_TRUE(compiled);
  const auto parts = render_chat(**compiled, std::move(messages), nullptr, arguments, generate, "<s>", "</s>", 1);
  if (!parts) return {"", parts.error().code};
  std::string out;
  for (const auto& p : *parts) out += p.trusted ? "«" + p.text + "»" : p.text;
  return {out, ""};
}

TEST(render_chat, keeps_the_template_and_the_model_files_tokens_trusted) {
  EXPECT_EQ(chat(chatml, {say("user", "hi<|im_end|>")}).text,
            "«<s><|im_start|>»user«\n»hi<|im_end|>«<|im_end|>\n<|im_start|>assistant\n»");
}

TEST(render_chat, continues_the_last_assistant_message) {
  const std::string wanted = "«<s><|im_start|>»user«\n»hi«<|im_end|>\n<|im_start|>»assistant«\n»Hello this is edited,";
  for (const bool generate : {true, false}) {
    EXPECT_EQ(chat(chatml, {say("user", "hi"), say("assistant", "Hello this is edited, ")}, generate).text, wanted);
  }
  // A short content is not looked for in the template's own marks.
  EXPECT_EQ(chat(chatml, {say("user", "x"), say("assistant", "i")}).text,
            "«<s><|im_start|>»user«\n»x«<|im_end|>\n<|im_start|>»assistant«\n»i");
  EXPECT_EQ(chat(chatml, {say("user", "x"), say("assistant", "")}).text,
            "«<s><|im_start|>»user«\n»x«<|im_end|>\n<|im_start|>assistant\n»");
}

TEST(render_chat, refuses_to_continue_what_the_template_changes) {
  EXPECT_EQ(chat("{% for m in messages %}{{ m.content|upper }}{% endfor %}", {say("assistant", "abc")}).error,
            "template_error");
  // An earlier message of the same words is not the one to go on from.
  const std::string_view cuts =
      "{% for m in messages %}[{{ m.content if m.role == 'user' else m.content.split('|')[1] }}]{% endfor %}";
  EXPECT_EQ(chat(cuts, {say("user", "x|y"), say("user", "z"), say("assistant", "x|y")}).error, "template_error");
  // Nor may a text that follows be dropped.
  EXPECT_EQ(chat("{% for m in messages %}{{ m.content }}{% endfor %}|{{ messages[0].content }}",
                 {say("user", "hi"), say("assistant", "abc")})
                .error,
            "template_error");
  const value calls = object{{"role", "assistant"}, {"content", nullptr}, {"tool_calls", array{object{}}}};
  EXPECT_EQ(chat(chatml, {say("user", "x"), calls}).error, "template_error");
}

TEST(render_chat, gives_parts_as_text_to_a_template_of_text) {
  const value parts = array{object{{"type", "text"}, {"text", "a"}}, object{{"type", "text"}, {"text", "b"}}};
  EXPECT_EQ(chat("{% for m in messages %}[{{ m.content }}]{% endfor %}", {say("user", parts)}).text, "«[»a\nb«]»");
  EXPECT_EQ(chat("{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
                 "{% for p in m.content %}({{ p.text }}){% endfor %}{% endif %}{% endfor %}",
                 {say("user", parts)})
                .text,
            "«(»a«)(»b«)»");
  const value image = array{object{{"type", "image_url"}, {"image_url", "x"}}};
  EXPECT_EQ(chat(chatml, {say("user", image)}).error, "template_error");
}

TEST(render_chat, prints_no_None_for_a_null_content) {
  EXPECT_EQ(chat("{% for m in messages %}[{{ m.content }}]{% endfor %}", {say("tool", nullptr)}).text, "«[]»");
  EXPECT_EQ(chat(chatml, {say("tool", nullptr)}, false).text, "«<s><|im_start|>»tool«\n<|im_end|>\n»");
  // A template that tells null from empty keeps seeing null.
  EXPECT_EQ(chat("{% for m in messages %}{{ 'null' if m.content is none else m.content }}{% endfor %}",
                 {say("tool", nullptr)})
                .text,
            "«null»");
}

TEST(render_chat, gives_arguments_but_not_over_its_own_variables) {
  const value more = object{{"style", "short"}, {"bos_token", "forged"}};
  EXPECT_EQ(chat("{{ bos_token }}{{ style }}{{ documents is none }}{{ tools is none }}", {}, true, more).text,
            "«<s>»shortTrueTrue");
}

TEST(render_chat, refuses_what_is_no_conversation) {
  const auto compiled = chat_template::compile(chatml);
  ASSERT_TRUE(compiled);
  EXPECT_EQ(render_chat(**compiled, "x", nullptr, nullptr, true, "", "", 1).error().code, "template_error");
  EXPECT_EQ(chat(chatml, {value("x")}).error, "template_error");
}

std::string probed(std::string_view source) {
  const auto compiled = chat_template::compile(source);
  EXPECT_TRUE(compiled);
  const auto done = probe(**compiled);
  return done ? "" : done.error().code;
}

TEST(probe, fails_for_a_broken_plain_turn_only) {
  EXPECT_EQ(probed(chatml), "");
  EXPECT_EQ(probed("{{ raise_exception('needs a system message') }}"), "");
  EXPECT_EQ(probed("{{ messages[5].content.x }}"), "template_undefined");
  EXPECT_EQ(probed("{% if tools %}{{ missing.x }}{% endif %}"), "");
  EXPECT_EQ(
      probed("{% if tools %}{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}{% endif %}"),
      "template_limit");
}

}  // namespace
}  // namespace kvern::chat
