#pragma once

#include <array>
#include <cstdint>

namespace kvern::gpu {

/// What a step costs, learned from the steps that ran: `fixed + per_row * rows` milliseconds, by recursive least
/// squares that forgets. One odd measurement moves it little; a lasting change takes a few dozen steps.
class cost_model {
 public:
  /// A step of `rows` rows took `ms`.
  void observe(std::int32_t rows, double ms);

  double estimate(std::int32_t rows) const;

  /// Prompt rows that fit a step of `decode_rows` and `max_ms`. Where decode rows alone take longer, prompts may add a
  /// quarter to that. At least 1, so that prompts never starve; at most `max_chunk`, and few before the first step was
  /// seen.
  std::int32_t prompt_rows(std::int32_t decode_rows, double max_ms, std::int32_t max_chunk) const;

 private:
  // The first guess is slow on purpose: the first mixed steps come out short, not long.
  bool seen_ = false;
  double fixed_ = 1;
  double per_unit_ = 32;                              ///< for `unit` rows
  std::array<double, 3> p_{uncertain, 0, uncertain};  ///< covariance: fixed-fixed, fixed-unit, unit-unit

  static constexpr double unit = 32;
  static constexpr double uncertain = 100;
};

}  // namespace kvern::gpu
