#include "ipc/sampling_fields.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>

#include "model/sampler/sampling_limits.hpp"

namespace kvern::ipc {
namespace {

namespace json = boost::json;

using namespace sampling_limits;

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
    if (!(std::abs(b) <= max_bias)) {
      body.fail("logit_bias", fmt::format("of token {} must be a number from {} to {}", id, -max_bias, max_bias));
      return;
    }
    params.logit_bias.emplace_back(id, b);
  }
}

std::optional<double> read_repetition(fields& body, std::string_view name) {
  const auto penalty = body.number(name, 0, max_repetition_penalty);
  if (penalty == 0) body.fail(name, "must be above 0; 1 is off");
  return penalty;
}

}  // namespace

sampling_params read_sampling(fields& body, std::int64_t vocab) {
  constexpr auto least = std::numeric_limits<std::int64_t>::min();
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  sampling_params p;
  p.temperature = body.number("temperature", 0, max_temperature).value_or(p.temperature);
  p.top_k = body.integer("top_k", least, most).value_or(p.top_k);
  p.top_p = body.number("top_p", 0, 1).value_or(p.top_p);
  p.min_p = body.number("min_p", 0, 1).value_or(p.min_p);
  p.typical_p = body.number("typical_p", 0, 1).value_or(p.typical_p);
  const auto repeat = read_repetition(body, "repeat_penalty");
  const auto repetition = read_repetition(body, "repetition_penalty");
  p.repetition_penalty = repetition.value_or(repeat.value_or(p.repetition_penalty));
  p.penalty_window = body.integer("repeat_last_n", -1, most).value_or(p.penalty_window);
  p.presence_penalty = body.number("presence_penalty", -max_penalty, max_penalty).value_or(p.presence_penalty);
  p.frequency_penalty = body.number("frequency_penalty", -max_penalty, max_penalty).value_or(p.frequency_penalty);
  p.seed = body.unsigned_integer("seed");
  read_logit_bias(body, vocab, p);
  return p;
}

}  // namespace kvern::ipc
