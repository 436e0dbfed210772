#include "ipc/sampling_fields.hpp"

#include <gtest/gtest.h>

#include "model/sampler/sampler.hpp"

namespace kvern::ipc {
namespace {

constexpr std::int32_t vocab = 100;

std::expected<sampling_params, request_error> read(std::string_view text) {
  const auto d = parse_json_object(text);
  if (!d) return std::unexpected(d.error());
  fields f(d->root().get_object());
  sampling_params p = read_sampling(f, vocab);
  if (f.failure()) return std::unexpected(*f.failure());
  return p;
}

TEST(read_sampling, keeps_the_defaults) {
  const auto p = read(R"({"temperature":null})");
  ASSERT_TRUE(p);
  const sampling_params d;
  EXPECT_EQ(p->temperature, d.temperature);
  EXPECT_EQ(p->top_k, d.top_k);
  EXPECT_EQ(p->top_p, d.top_p);
  EXPECT_EQ(p->min_p, d.min_p);
  EXPECT_EQ(p->penalty_window, d.penalty_window);
  EXPECT_EQ(p->seed, std::nullopt);
  EXPECT_TRUE(p->logit_bias.empty());
}

TEST(read_sampling, reads_every_parameter) {
  const auto p = read(R"({"temperature":1,"top_k":-1,"top_p":0.5,"min_p":0.1,"typical_p":0.9,"repeat_penalty":1.1,
    "repeat_last_n":-1,"presence_penalty":-0.5,"frequency_penalty":2,"seed":18446744073709551615,
    "logit_bias":{"0":-100,"99":1.5}})");
  ASSERT_TRUE(p) << p.error().why.message;
  EXPECT_EQ(p->temperature, 1.0);
  EXPECT_EQ(p->top_k, -1);
  EXPECT_EQ(p->top_p, 0.5);
  EXPECT_EQ(p->min_p, 0.1);
  EXPECT_EQ(p->typical_p, 0.9);
  EXPECT_EQ(p->repetition_penalty, 1.1);
  EXPECT_EQ(p->penalty_window, -1);
  EXPECT_EQ(p->presence_penalty, -0.5);
  EXPECT_EQ(p->frequency_penalty, 2.0);
  EXPECT_EQ(p->seed, 18446744073709551615u);
  ASSERT_EQ(p->logit_bias.size(), 2u);
  EXPECT_EQ(p->logit_bias[1], (std::pair<token_id, double>(99, 1.5)));
  EXPECT_EQ(read(R"({"repetition_penalty":1.3,"repeat_penalty":1.1})")->repetition_penalty, 1.3);
}

TEST(read_sampling, takes_all_that_the_sampler_takes) {
  const auto most = read(R"({"temperature":100,"top_k":9223372036854775807,"repetition_penalty":100,
    "presence_penalty":100,"frequency_penalty":100,"logit_bias":{"1":1000}})");
  ASSERT_TRUE(most) << most.error().why.message;
  EXPECT_TRUE(validate(*most, vocab));
  const auto least = read(R"({"temperature":0,"top_k":-5,"top_p":0,"min_p":0,"typical_p":0,"repetition_penalty":1e-9,
    "presence_penalty":-100,"frequency_penalty":-100,"logit_bias":{"1":-1000},"repeat_last_n":0})");
  ASSERT_TRUE(least) << least.error().why.message;
  EXPECT_TRUE(validate(*least, vocab));
}

TEST(read_sampling, names_what_is_out_of_range) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"temperature":-0.1})", "temperature"},
      {R"({"temperature":"hot"})", "temperature"},
      {R"({"temperature":1e999})", "temperature"},
      {R"({"top_p":1.01})", "top_p"},
      {R"({"top_k":1.5})", "top_k"},
      {R"({"top_k":9223372036854775808})", "top_k"},
      {R"({"min_p":-1})", "min_p"},
      {R"({"typical_p":2})", "typical_p"},
      {R"({"repeat_penalty":0})", "repeat_penalty"},
      {R"({"repeat_last_n":-2})", "repeat_last_n"},
      {R"({"seed":-1})", "seed"},
      {R"({"seed":18446744073709551616})", "seed"},
      {R"({"presence_penalty":100.5})", "presence_penalty"},
      {R"({"frequency_penalty":-101})", "frequency_penalty"},
      {R"({"repetition_penalty":100.5})", "repetition_penalty"},
      {R"({"logit_bias":[]})", "logit_bias"},
      {R"({"logit_bias":{"191222":-100}})", "logit_bias"},
      {R"({"logit_bias":{"-1":0}})", "logit_bias"},
      {R"({"logit_bias":{"abc":0}})", "logit_bias"},
      {R"({"logit_bias":{"":0}})", "logit_bias"},
      {R"({"logit_bias":{"1x":0}})", "logit_bias"},
      {R"({"logit_bias":{"4294967296":0}})", "logit_bias"},
      {R"({"logit_bias":{"1":1e999}})", "logit_bias"},
      {R"({"logit_bias":{"1":1000.5}})", "logit_bias"},
      {R"({"logit_bias":{"1":"2"}})", "logit_bias"},
  };
  for (const auto& [text, param] : cases) {
    const auto p = read(text);
    ASSERT_FALSE(p) << text;
    if (p.error().why.code == "invalid_json") continue;  // a number no double holds may end there
    EXPECT_EQ(p.error().param, param) << text;
    EXPECT_EQ(p.error().why.code, "invalid_request") << text;
  }
}

}  // namespace
}  // namespace kvern::ipc
