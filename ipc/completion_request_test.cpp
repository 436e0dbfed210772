#include "ipc/completion_request.hpp"

#include <gtest/gtest.h>

#include <string>

namespace kvern::ipc {
namespace {

model_info model() {
  model_info m;
  m.id = "tiny";
  m.vocab = 100;
  m.context = 64;
  return m;
}

parsed<completion_request> text(const std::string& more) {
  return parse_completion(completion_kind::text, R"({"prompt":"hi")" + (more.empty() ? "" : "," + more) + "}", model());
}

parsed<completion_request> chat(const std::string& more) {
  return parse_completion(completion_kind::chat,
                          R"({"messages":[{"role":"user","content":"hi"}])" + (more.empty() ? "" : "," + more) + "}",
                          model());
}

TEST(parse_completion, has_defaults) {
  const auto r = chat("");
  ASSERT_TRUE(r) << r.error().why.message;
  EXPECT_EQ(r->choices(), 1u);
  EXPECT_FALSE(r->stream);
  EXPECT_EQ(r->common.max_tokens, std::nullopt);
  EXPECT_EQ(r->common.logprobs, -1);
  EXPECT_TRUE(r->common.stop.empty());
  EXPECT_TRUE(std::holds_alternative<chat_prompt>(r->choice(0).prompt));
}

TEST(parse_completion, reads_everything_it_offers) {
  const auto r = chat(R"("model":"tiny.gguf","stream":true,"stream_options":{"include_usage":true,
    "include_progress":true},"stop":["a","b"],"max_tokens":7,"max_completion_tokens":5,"n":2,"seed":10,"session":null,
    "logprobs":true,"top_logprobs":3,"ignore_eos":true,"return_token_ids":true,"temperature":0,"prompt_lookup":false,
    "user":"me","store":false,"metadata":{"a":1},"response_format":{"type":"text"},"modalities":["text"])");
  ASSERT_TRUE(r) << r.error().why.message;
  EXPECT_TRUE(r->stream && r->include_usage && r->include_progress && r->return_token_ids && r->common.ignore_eos);
  EXPECT_EQ(r->common.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(r->common.max_tokens, 5);
  EXPECT_EQ(r->common.logprobs, 3);
  EXPECT_EQ(r->common.prompt_lookup, std::optional(false));
  EXPECT_EQ(chat(R"("prompt_lookup":true)")->common.prompt_lookup, std::optional(true));
  EXPECT_EQ(chat(R"("prompt_lookup":null)")->common.prompt_lookup, std::nullopt);
  EXPECT_EQ(r->choices(), 2u);
  EXPECT_EQ(r->choice(0).sampling.seed, 10u);
  EXPECT_EQ(r->choice(1).sampling.seed, 11u);
}

TEST(parse_completion, maps_choices_to_prompts) {
  const auto r = parse_completion(completion_kind::text, R"({"prompt":["a","b"],"n":3,"seed":1})", model());
  ASSERT_TRUE(r);
  ASSERT_EQ(r->choices(), 6u);
  EXPECT_EQ(std::get<text_prompt>(r->choice(2).prompt).text, "a");
  EXPECT_EQ(std::get<text_prompt>(r->choice(3).prompt).text, "b");
  EXPECT_EQ(r->choice(5).sampling.seed, 3u);
}

TEST(parse_completion, knows_that_no_limit_has_three_spellings) {
  EXPECT_EQ(text("")->common.max_tokens, std::nullopt);
  EXPECT_EQ(text(R"("max_tokens":null)")->common.max_tokens, std::nullopt);
  EXPECT_EQ(text(R"("max_tokens":-1)")->common.max_tokens, std::nullopt);
  EXPECT_EQ(text(R"("max_tokens":-1,"max_completion_tokens":9)")->common.max_tokens, 9);
  EXPECT_EQ(text(R"("stop":"x")")->common.stop, std::vector<std::string>{"x"});
  EXPECT_EQ(text(R"("logprobs":0)")->common.logprobs, 0);
}

TEST(parse_completion, refuses_what_it_does_not_offer) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("response_format":{"type":"json_object"})", "response_format"},
      {R"("response_format":{"type":"json_schema","json_schema":{}})", "response_format"},
      {R"("response_format":{})", "response_format"},
      {R"("tool_choice":"required")", "tool_choice"},
      {R"("functions":[{}])", "functions"},
      {R"("function_call":{"name":"f"})", "function_call"},
      {R"("audio":{"voice":"x"})", "audio"},
      {R"("modalities":["text","audio"])", "modalities"},
      {R"("guided_regex":"foo**")", "guided_regex"},
      {R"("grammar":"root ::= x")", "grammar"},
      {R"("prompt_logprobs":-1)", "prompt_logprobs"},
      {R"("n_discard":-1)", "n_discard"},
      {R"("num_ctx":1000000000)", "num_ctx"},
      {R"("best_of":3)", "best_of"},
      {R"("skip_special_tokens":false)", "skip_special_tokens"},
      {R"("echo":true)", "echo"},
  };
  for (const auto& [field, param] : cases) {
    const auto r = chat(field);
    ASSERT_FALSE(r) << field;
    EXPECT_EQ(r.error().why.code, "unsupported") << field;
    EXPECT_EQ(r.error().param, param);
    EXPECT_EQ(r.error().why.message.find(param), 0u);
  }
  EXPECT_EQ(text(R"("max_tokens":0,"echo":true,"logprobs":1)").error().why.code, "unsupported");
}

TEST(parse_completion, names_what_is_wrong) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("stream":1)", "stream"},
      {R"("stream_options":{"include_usage":true})", "stream_options"},
      {R"("stream":true,"stream_options":3)", "stream_options"},
      {R"("stream":true,"stream_options":{"include_usage":"yes"})", "stream_options.include_usage"},
      {R"("stop":3)", "stop"},
      {R"("stop":[""])", "stop"},
      {R"("stop":"")", "stop"},
      {R"("stop":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"])", "stop"},
      {R"("n":0)", "n"},
      {R"("n":17)", "n"},
      {R"("max_tokens":0)", "max_tokens"},
      {R"("max_tokens":-2)", "max_tokens"},
      {R"("max_tokens":9223372036854775808)", "max_tokens"},
      {R"("max_completion_tokens":"5")", "max_completion_tokens"},
      {R"("logprobs":1)", "logprobs"},
      {R"("top_logprobs":2)", "top_logprobs"},
      {R"("logprobs":true,"top_logprobs":21)", "top_logprobs"},
      {R"("session":7)", "session"},
      {R"("session":"s","n":2)", "session"},
      {R"("ignore_eos":"no")", "ignore_eos"},
      {R"("prompt_lookup":"auto")", "prompt_lookup"},
      {R"("temperature":-1)", "temperature"},
      {R"("response_format":"json")", "response_format"},
  };
  for (const auto& [field, param] : cases) {
    const auto r = chat(field);
    ASSERT_FALSE(r) << field;
    EXPECT_EQ(r.error().why.code, "invalid_request") << field;
    EXPECT_EQ(r.error().param, param);
    EXPECT_EQ(r.error().why.message.find(param), 0u) << r.error().why.message;
  }
}

TEST(parse_completion, knows_its_model) {
  EXPECT_TRUE(text(R"("model":"tiny")"));
  const auto other = text(R"("model":"gpt-4o")");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().why.code, "model_not_found");
  EXPECT_EQ(other.error().param, "model");
  EXPECT_FALSE(names_model(".gguf", model()));
}

TEST(parse_completion, bounds_the_number_of_generations) {
  std::string prompts = R"({"n":16,"prompt":["a")";
  for (int i = 0; i < 8; ++i) prompts += R"(,"a")";
  const auto r = parse_completion(completion_kind::text, prompts + "]}", model());
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().param, "n");
  const std::string large = R"({"n":16,"prompt":")" + std::string(std::size_t{5} << 20, 'x') + R"("})";
  EXPECT_FALSE(parse_completion(completion_kind::text, large, model()));
}

TEST(parse_completion, bounds_what_an_answer_that_does_not_stream_may_grow_to) {
  model_info large = model();
  large.context = 131072;
  const auto ask = [&](const std::string& more) {
    return parse_completion(completion_kind::text, R"({"prompt":"hi",)" + more + "}", large);
  };
  const auto refused = ask(R"("n":16,"logprobs":20)");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().param, "max_tokens");
  EXPECT_TRUE(ask(R"("n":16,"logprobs":20,"max_tokens":1000)"));
  EXPECT_TRUE(ask(R"("n":16,"logprobs":20,"stream":true)"));
  EXPECT_TRUE(ask(R"("n":16)"));
}

TEST(parse_completion, ignores_harmless_fields_but_not_their_depth) {
  EXPECT_TRUE(text(R"("whatever":{"a":[1,2,{"b":null}]},"cache_salt":"x")"));
  EXPECT_FALSE(text("\"whatever\":" + std::string(10'000, '[') + std::string(10'000, ']')));
}

}  // namespace
}  // namespace kvern::ipc
