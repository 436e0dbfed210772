#include "gpu/engine/cost_model.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvern::gpu {
namespace {

constexpr double forget = 0.97;
constexpr std::int32_t first_rows = 32;  // of the step that tells how fast this model is here
constexpr double least_per_unit = 1e-4;  // milliseconds

}  // namespace

void cost_model::observe(std::int32_t rows, double ms) {
  if (rows <= 0 || !std::isfinite(ms) || ms < 0) return;
  const double x = rows / unit;
  if (!std::exchange(seen_, true)) per_unit_ = std::max(least_per_unit, (ms - fixed_) / x);
  const double expected = fixed_ + per_unit_ * x;
  const bool odd = ms > 2 * expected;
  const double miss = odd ? expected : ms - expected;
  const double g0 = p_[0] + p_[1] * x;
  const double g1 = p_[1] + p_[2] * x;
  const double scale = forget + g0 + g1 * x;
  fixed_ = std::max(0.0, fixed_ + g0 / scale * miss);
  per_unit_ = std::max(least_per_unit, per_unit_ + g1 / scale * miss);
  // An odd measurement was cut; it says that the model is off, so it adds no certainty.
  if (odd) return;
  p_ = {(p_[0] - g0 * g0 / scale) / forget, (p_[1] - g0 * g1 / scale) / forget, (p_[2] - g1 * g1 / scale) / forget};
  // Without variety in `rows` the covariance would grow for ever in the direction nothing is learned about.
  if (const double most = std::max(p_[0], p_[2]); most > uncertain)
    for (double& p : p_) p *= uncertain / most;
}

double cost_model::estimate(std::int32_t rows) const { return fixed_ + per_unit_ * rows / unit; }

std::int32_t cost_model::prompt_rows(std::int32_t decode_rows, double max_ms, std::int32_t max_chunk) const {
  if (!seen_) max_chunk = std::min(max_chunk, first_rows);
  const double alone = estimate(decode_rows);
  const double room = alone < max_ms ? max_ms - alone : alone / 4;
  const double rows = std::floor(room / per_unit_ * unit);
  return static_cast<std::int32_t>(std::clamp(rows, 1.0, std::max(1.0, static_cast<double>(max_chunk))));
}

}  // namespace kvern::gpu
