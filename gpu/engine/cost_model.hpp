#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "gpu/engine/step_cost.hpp"

namespace kvern::gpu {

/// What a step costs on this machine, learned from the steps that ran: how time depends on load, by recursive least
/// squares of relative errors that slowly forget, times the pace of the last few steps, which follows a machine that
/// becomes slower or faster at once. One odd measurement moves neither much.
class cost_model {
 public:
  /// A step of `load` took `ms`.
  void observe(const step_load& load, double ms);

  step_cost estimate() const;

  /// What the estimate of a step may be, for the step to stay within `ms` most of the time.
  double aim(double ms) const;

  /// Prompt rows that a step without decode rows may have, `most` at most: few before the first step was seen.
  std::int32_t first_chunk(std::int32_t most) const;
  /// Beside decode rows: about twice what a step has had so far, for nothing is known of more.
  std::int32_t trusted_rows(std::int32_t most) const;

 private:
  static constexpr std::size_t terms = 5;  ///< fixed, rows, reads, pairs, heads
  using vector = std::array<double, terms>;

  struct measurement {
    vector x{};
    double ms = 0;
  };

  static vector scaled(const step_load& load);
  double shape(const vector& x) const;
  double pace() const;
  bool settled() const;
  void begin(const vector& x, double ms);
  void learn(const vector& x, double ms);

  bool seen_ = false;
  double first_ms_ = 0;              ///< the unit of `factors_`
  vector factors_{};                 ///< 0 or more
  std::array<vector, terms> p_{};    ///< covariance of `factors_`
  std::array<measurement, 5> last_;  ///< a ring
  std::size_t count_ = 0;            ///< measurements so far
  double spread_ = 0.02;             ///< mean of relative errors of the estimate
  std::int32_t most_rows_ = 0;       ///< of a step so far
};

}  // namespace kvern::gpu
