#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/token.hpp"

namespace kvern {

/// How the next token of one turn is chosen. Plain data; validated by `validate` (sampler.hpp) before it is used.
struct sampling_params {
  double temperature = 0.8;         ///< 0: argmax
  std::int64_t top_k = 40;          ///< 0 or less: off
  double top_p = 0.95;              ///< 1: off
  double min_p = 0.05;              ///< 0: off
  double typical_p = 1.0;           ///< 1: off
  double repetition_penalty = 1.0;  ///< 1: off
  double presence_penalty = 0.0;
  double frequency_penalty = 0.0;
  std::int64_t penalty_window = 64;  ///< last tokens of prompt and answer that penalties see; -1: the whole context
  std::vector<std::pair<token_id, double>> logit_bias;
  std::optional<std::uint64_t> seed;  ///< absent: the engine draws one
};

/// A token's log-probability (natural) before temperature and filters, and the `alternatives` likeliest, best first.
struct token_logprob {
  double logprob = 0;
  std::vector<std::pair<token_id, double>> alternatives;
};

}  // namespace kvern
