#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "base/token.hpp"
#include "model/sampler/sampling_params.hpp"

namespace kvern {

/// Alternatives a sampled token may be asked for, at most.
inline constexpr int max_alternatives = 20;

/// Errors: `invalid_request`, naming the parameter and its range.
result<void> validate(const sampling_params& params, std::int32_t vocab);

struct sampled {
  token_id token = 0;
  token_logprob logprob;
};

/// Chooses the tokens of one turn. Not thread-safe; samplers of different threads are independent. The n-th choice
/// depends on the parameters, the seed, n, the logits and the history alone.
///
/// Order, as in llama.cpp's default chain: logit_bias, penalties (repetition, frequency, presence), top_k, typical_p,
/// top_p, min_p, temperature, draw. The filters see probabilities at temperature 1. Each filter keeps at least one
/// token. Logits that are NaN or infinite are excluded first. Temperature 0 is the argmax after bias and penalties; of
/// equal logits the lowest id wins, here and in top_k.
class sampler {
 public:
  /// `params` must be valid. `seed` is used where `params` has none.
  sampler(sampling_params params, std::int32_t vocab, std::uint64_t seed);

  /// The next token after `history` (prompt and answer so far), from `logits` [vocab]. With `alternatives` >= 0 also
  /// its log-probability and so many (`max_alternatives` at most) of the likeliest tokens, from the logits as given.
  /// Errors: `no_finite_logit`; the choice does not count then.
  result<sampled> next(std::span<const float> logits, std::span<const token_id> history, int alternatives);

 private:
  bool adjusts() const;

  sampling_params params_;
  std::int32_t vocab_;
  std::uint64_t seed_;
  std::uint64_t drawn_ = 0;  ///< choices made
};

}  // namespace kvern
