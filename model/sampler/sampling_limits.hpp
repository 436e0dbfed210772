#pragma once

/// The ranges of sampling_params' members, both ends included unless said otherwise. What `validate` accepts; a
/// protocol that wants to name a wrong field in its own words checks against the same numbers. top_p, min_p and
/// typical_p: 0 to 1.
namespace kvern::sampling_limits {

inline constexpr double max_temperature = 100;         ///< from 0
inline constexpr double max_repetition_penalty = 100;  ///< from above 0
inline constexpr double max_penalty = 100;             ///< presence and frequency: from -max_penalty
inline constexpr double max_bias = 1000;               ///< logit_bias: from -max_bias

}  // namespace kvern::sampling_limits
