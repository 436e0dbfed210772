#pragma once

#include <vector>

#include "model/sampler/select.hpp"

/// Filters on candidates, each at temperature 1 and each keeping at least one. `c` must not be empty.
namespace kvern {

/// Keeps the candidates whose surprise is closest to the expected one, until their probabilities exceed `p`.
/// The order of the rest is theirs by typicality.
void keep_typical(std::vector<candidate>& c, double p);

/// top_p, then min_p: of the likeliest candidates whose probabilities reach `top_p` (1: all), those at least `min_p`
/// times as likely as the likeliest. In order when top_p is below 1.
void keep_likely(std::vector<candidate>& c, double top_p, double min_p);

/// The candidate at `u` in [0, 1) of the distribution at `temperature` > 0, in the order of `c`.
token_id draw(const std::vector<candidate>& c, double temperature, double u);

}  // namespace kvern
