#include "ipc/sampling_fields.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>

namespace kvern::ipc {
namespace {

namespace json = boost::json;

constexpr double most_bias = 100;

void read_logit_bias(fields& body, std::int64_t vocab, sampling_params& params) {
  const json::object* biases = body.object("logit_bias");
  if (biases == nullptr) return;
  params.logit_bias.reserve(biases->size());
  for (const auto& [key, bias] : *biases) {
    token_id id = 0;
    const char* const end = key.data() + key.size();
    const auto [stopped, ec] = std::from_chars(key.data(), end, id);
    if (key.empty() || ec != std::errc{} || stopped != end || id < 0 || id >= vocab) {
      body.fail("logit_bias", fmt::format("has a key that is no token id of this model (0 to {})", vocab - 1));
      return;
    }
    const double b = bias.is_number() ? bias.to_number<double>() : std::numeric_limits<double>::quiet_NaN();
    if (!(std::abs(b) <= most_bias)) {
      body.fail("logit_bias", fmt::format("of token {} must be a number from -100 to 100", id));
      return;
    }
    params.logit_bias.emplace_back(id, b);
  }
}

}  // namespace

sampling_params read_sampling(fields& body, std::int64_t vocab) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  sampling_params p;
  p.temperature = body.number("temperature", 0, 100).value_or(p.temperature);
  p.top_k = body.integer("top_k", -1, most).value_or(p.top_k);
  p.top_p = body.number("top_p", 0, 1).value_or(p.top_p);
  p.min_p = body.number("min_p", 0, 1).value_or(p.min_p);
  p.typical_p = body.number("typical_p", 0, 1).value_or(p.typical_p);
  const auto repeat = body.number("repeat_penalty", 0.01, 100);
  const auto repetition = body.number("repetition_penalty", 0.01, 100);
  p.repetition_penalty = repetition.value_or(repeat.value_or(p.repetition_penalty));
  p.penalty_window = body.integer("repeat_last_n", -1, most).value_or(p.penalty_window);
  p.presence_penalty = body.number("presence_penalty", -2, 2).value_or(p.presence_penalty);
  p.frequency_penalty = body.number("frequency_penalty", -2, 2).value_or(p.frequency_penalty);
  p.seed = body.unsigned_integer("seed");
  read_logit_bias(body, vocab, p);
  return p;
}

}  // namespace kvern::ipc
