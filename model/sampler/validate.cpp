#include <fmt/format.h>

#include <cmath>
#include <string>

#include "model/sampler/sampler.hpp"
#include "model/sampler/sampling_limits.hpp"

namespace kvern {
namespace {

using namespace sampling_limits;

result<void> in_range(const char* name, double value, double low, double high) {
  if (value >= low && value <= high) return {};  // NaN is in no range
  return fail("invalid_request", fmt::format("{} is {}; it must be a number from {} to {}", name, value, low, high));
}

result<void> validate_bias(const sampling_params& p, std::int32_t vocab) {
  if (p.logit_bias.size() > static_cast<std::size_t>(vocab))
    return fail("invalid_request",
                fmt::format("logit_bias has {} entries; it may have {} at most", p.logit_bias.size(), vocab));
  for (const auto& [token, bias] : p.logit_bias) {
    if (token < 0 || token >= vocab)
      return fail("invalid_request",
                  fmt::format("logit_bias names token {}; the vocabulary has the tokens 0 to {}", token, vocab - 1));
    if (auto ok = in_range("a logit_bias value", bias, -max_bias, max_bias); !ok) return ok;
  }
  return {};
}

}  // namespace

result<void> validate(const sampling_params& p, std::int32_t vocab) {
  struct bound {
    const char* name;
    double value, low, high;
  };
  const bound bounds[] = {
      {"temperature", p.temperature, 0, max_temperature},
      {"top_p", p.top_p, 0, 1},
      {"min_p", p.min_p, 0, 1},
      {"typical_p", p.typical_p, 0, 1},
      {"presence_penalty", p.presence_penalty, -max_penalty, max_penalty},
      {"frequency_penalty", p.frequency_penalty, -max_penalty, max_penalty},
  };
  for (const bound& b : bounds)
    if (auto ok = in_range(b.name, b.value, b.low, b.high); !ok) return ok;
  if (!(p.repetition_penalty > 0 && p.repetition_penalty <= max_repetition_penalty))
    return fail("invalid_request", fmt::format("repetition_penalty is {}; it must be above 0 and {} at most",
                                               p.repetition_penalty, max_repetition_penalty));
  if (p.penalty_window < -1)
    return fail("invalid_request",
                fmt::format("penalty_window is {}; it must be -1 (the whole context), 0 (off) or a number of tokens",
                            p.penalty_window));
  return validate_bias(p, vocab);
}

}  // namespace kvern
