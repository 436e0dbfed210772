#include "model/sampler/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "model/sampler/filters.hpp"
#include "model/sampler/select.hpp"

namespace kvern {
namespace {

// Memory of next(), one for each thread: its samplers take turns, and it stays in the processor's cache.
struct workspace {
  std::vector<float> logits;          // [vocab], adjusted
  std::vector<std::uint32_t> counts;  // [vocab], zero between calls
  std::vector<token_id> seen;
  std::vector<candidate> candidates;
};
thread_local workspace work;

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

// SplitMix64 read at place `n` of the stream that `seed` begins: uniform in [0, 1), 53 bits.
double uniform(std::uint64_t seed, std::uint64_t n) {
  constexpr std::uint64_t golden = 0x9e3779b97f4a7c15U;
  return static_cast<double>(mix(mix(seed + golden) + (n + 1) * golden) >> 11) * 0x1p-53;
}

// Adjusting never makes a finite logit infinite, nor an excluded one finite.
void adjust(float& logit, double value) {
  if (!std::isfinite(logit)) return;
  constexpr double limit = std::numeric_limits<float>::max();
  logit = static_cast<float>(std::clamp(value, -limit, limit));
}

void add_bias(const sampling_params& p, std::vector<float>& logits) {
  for (const auto& [token, bias] : p.logit_bias) {
    float& logit = logits[static_cast<std::size_t>(token)];
    adjust(logit, logit + bias);
  }
}

std::span<const token_id> window(std::span<const token_id> history, std::int64_t size) {
  if (size < 0 || static_cast<std::uint64_t>(size) >= history.size()) return history;
  return history.last(static_cast<std::size_t>(size));
}

void penalize(const sampling_params& p, std::span<const token_id> tokens, workspace& w) {
  w.counts.resize(std::max(w.counts.size(), w.logits.size()), 0);
  w.seen.clear();
  w.seen.reserve(w.logits.size());  // from here on nothing throws, which would leave counts behind
  for (const token_id t : tokens) {
    if (t < 0 || static_cast<std::size_t>(t) >= w.logits.size()) continue;
    if (w.counts[static_cast<std::size_t>(t)]++ == 0) w.seen.push_back(t);
  }
  for (const token_id t : w.seen) {
    float& logit = w.logits[static_cast<std::size_t>(t)];
    const double count = std::exchange(w.counts[static_cast<std::size_t>(t)], 0U);
    double value = logit;
    value = value > 0 ? value / p.repetition_penalty : value * p.repetition_penalty;
    adjust(logit, value - count * p.frequency_penalty - p.presence_penalty);
  }
}

token_id choose(const sampling_params& p, std::span<const float> logits, double u) {
  auto& c = work.candidates;
  if (p.top_k > 0 && static_cast<std::uint64_t>(p.top_k) < logits.size())
    top_k(logits, static_cast<std::size_t>(p.top_k), c);
  else
    all_finite(logits, c);
  if (c.empty()) return -1;
  if (p.typical_p < 1) keep_typical(c, p.typical_p);
  if (p.top_p < 1 || p.min_p > 0) keep_likely(c, p.top_p, p.min_p);
  return draw(c, p.temperature, u);
}

token_logprob log_probability(std::span<const float> logits, token_id token, int alternatives) {
  const float top = logits[static_cast<std::size_t>(argmax(logits))];
  double sum = 0;
  for (const float x : logits)
    if (std::isfinite(x)) sum += std::exp(static_cast<double>(x) - top);
  const double log_sum = std::log(sum);
  const auto of = [&](float x) { return static_cast<double>(x) - top - log_sum; };
  token_logprob out;
  out.logprob = of(logits[static_cast<std::size_t>(token)]);
  top_k(logits, static_cast<std::size_t>(std::min(alternatives, max_alternatives)), work.candidates);
  for (const candidate& c : work.candidates) out.alternatives.emplace_back(c.id, of(c.logit));
  return out;
}

}  // namespace

sampler::sampler(sampling_params params, std::int32_t vocab, std::uint64_t seed)
    : params_(std::move(params)), vocab_(vocab), seed_(params_.seed.value_or(seed)) {}

bool sampler::adjusts() const {
  return !params_.logit_bias.empty() ||
         (params_.penalty_window != 0 &&
          (params_.repetition_penalty != 1 || params_.presence_penalty != 0 || params_.frequency_penalty != 0));
}

result<sampled> sampler::next(std::span<const float> logits, std::span<const token_id> history, int alternatives) {
  if (logits.size() != static_cast<std::size_t>(vocab_))
    return fail("no_finite_logit", "The model gave logits of another vocabulary; the request was ended.");
  std::span<const float> adjusted = logits;
  if (adjusts()) {
    work.logits.assign(logits.begin(), logits.end());
    add_bias(params_, work.logits);
    penalize(params_, window(history, params_.penalty_window), work);
    adjusted = work.logits;
  }
  sampled out;
  out.token = params_.temperature == 0 ? argmax(adjusted) : choose(params_, adjusted, uniform(seed_, drawn_));
  if (out.token < 0)
    return fail("no_finite_logit",
                "The model gave no finite logit for this request's next token; the request was ended. "
                "Try a shorter or different prompt, or check the model file.");
  ++drawn_;
  if (alternatives >= 0) out.logprob = log_probability(logits, out.token, alternatives);
  return out;
}

}  // namespace kvern
