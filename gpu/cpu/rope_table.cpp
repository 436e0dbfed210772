#include "gpu/cpu/rope_table.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <utility>

namespace kvern::gpu::cpu {
namespace {

/// The (fractional) pair that turns `rotations` times within the original context.
double pair_of(double rotations, const rope_config& config) {
  return config.dims * std::log(config.original_context / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(config.base));
}

/// Angle of every pair at position 1.
std::vector<double> frequencies(const rope_config& config) {
  const int half = config.dims / 2;
  std::vector<double> result(static_cast<std::size_t>(half));
  double low = 0;
  double high = 0;
  if (config.scaling == rope_scaling::yarn) {
    low = std::max(0.0, std::floor(pair_of(config.beta_fast, config)));
    high = std::min(config.dims - 1.0, std::ceil(pair_of(config.beta_slow, config)));
  }
  for (int i = 0; i < half; ++i) {
    const auto index = static_cast<std::size_t>(i);
    double frequency = std::pow(config.base, -2.0 * i / config.dims);
    if (!config.freq_factors.empty()) frequency /= static_cast<double>(config.freq_factors[index]);
    const double scaled = frequency / config.factor;
    if (config.scaling == rope_scaling::linear) frequency = scaled;
    if (config.scaling == rope_scaling::yarn) {
      const double ramp = std::clamp((i - low) / std::max(0.001, high - low), 0.0, 1.0);
      frequency = scaled * ramp + frequency * (1 - ramp);
    }
    result[index] = frequency;
  }
  return result;
}

}  // namespace

result<rope_table> rope_table::create(const rope_config& config, std::int32_t context) {
  auto memory = memory_block::create(
      static_cast<std::uint64_t>(config.dims) * static_cast<std::uint64_t>(context) * sizeof(float),
      "the table of rotations");
  if (!memory) return std::unexpected(std::move(memory.error()));
  const double magnitude =
      config.scaling == rope_scaling::yarn ? config.magnitude * (1 + 0.1 * std::log(config.factor)) : config.magnitude;
  rope_table table(context, frequencies(config), magnitude, std::move(*memory));
  auto* out = table.memory_.as<float>();
  for (std::int32_t position = 0; position < context; ++position, out += config.dims) table.compute(position, out);
  return table;
}

void rope_table::compute(std::int32_t position, float* out) const {
  const std::size_t pairs = frequency_.size();
  for (std::size_t i = 0; i < pairs; ++i) {
    const double angle = position * frequency_[i];
    out[i] = static_cast<float>(magnitude_ * std::cos(angle));
    out[pairs + i] = static_cast<float>(magnitude_ * std::sin(angle));
  }
}

}  // namespace kvern::gpu::cpu
