#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "model/sampler/sampler.hpp"

namespace kvern {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

TEST(Validate, TakesTheDefaultsAndTheEdges) {
  EXPECT_TRUE(validate({}, 100));
  sampling_params p;
  p.temperature = 1e-5;
  p.top_k = 0;
  p.top_p = 0;
  p.min_p = 1;
  p.typical_p = 0;
  p.penalty_window = -1;
  p.presence_penalty = -2;
  p.frequency_penalty = 2;
  p.logit_bias = {{0, -100.0}, {99, 100.0}};
  EXPECT_TRUE(validate(p, 100));
  p.top_k = std::numeric_limits<std::int64_t>::max();
  EXPECT_TRUE(validate(p, 100));
  p.top_k = std::numeric_limits<std::int64_t>::min();
  EXPECT_TRUE(validate(p, 100));
}

TEST(Validate, NamesTheParameterAndItsRange) {
  struct wrong {
    const char* name;
    std::function<void(sampling_params&)> set;
  };
  const wrong cases[] = {
      {"temperature", [](auto& p) { p.temperature = nan; }},
      {"temperature", [](auto& p) { p.temperature = -0.1; }},
      {"temperature", [](auto& p) { p.temperature = inf; }},
      {"temperature", [](auto& p) { p.temperature = 1e9; }},
      {"top_p", [](auto& p) { p.top_p = 1.01; }},
      {"top_p", [](auto& p) { p.top_p = nan; }},
      {"min_p", [](auto& p) { p.min_p = -1; }},
      {"typical_p", [](auto& p) { p.typical_p = 2; }},
      {"repetition_penalty", [](auto& p) { p.repetition_penalty = 0; }},
      {"repetition_penalty", [](auto& p) { p.repetition_penalty = nan; }},
      {"repetition_penalty", [](auto& p) { p.repetition_penalty = 1e6; }},
      {"presence_penalty", [](auto& p) { p.presence_penalty = -inf; }},
      {"frequency_penalty", [](auto& p) { p.frequency_penalty = 1e300; }},
      {"penalty_window", [](auto& p) { p.penalty_window = -2; }},
      {"logit_bias",
       [](auto& p) {
         p.logit_bias = {{100, 1.0}};
       }},
      {"logit_bias",
       [](auto& p) {
         p.logit_bias = {{191222, -100.0}};
       }},
      {"logit_bias",
       [](auto& p) {
         p.logit_bias = {{-1, 1.0}};
       }},
      {"logit_bias",
       [](auto& p) {
         p.logit_bias = {{5, inf}};
       }},
      {"logit_bias",
       [](auto& p) {
         p.logit_bias = {{5, nan}};
       }},
      {"logit_bias",
       [](auto& p) {
         p.logit_bias.assign(101, {5, 1.0});
       }},
  };
  for (const wrong& w : cases) {
    sampling_params p;
    w.set(p);
    const auto r = validate(p, 100);
    ASSERT_FALSE(r) << w.name;
    EXPECT_EQ(r.error().code, "invalid_request");
    EXPECT_NE(r.error().message.find(w.name), std::string::npos) << r.error().message;
  }
}

}  // namespace
}  // namespace kvern
