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
  const auto half = static_cast<std::uint64_t>(config.dims / 2);
  auto memory =
      memory_block::create(2 * half * static_cast<std::uint64_t>(context) * sizeof(float), "the table of rotations");
  if (!memory) return std::unexpected(std::move(memory.error()));
  const std::vector<double> frequency = frequencies(config);
  const double magnitude =
      config.scaling == rope_scaling::yarn ? config.magnitude * (1 + 0.1 * std::log(config.factor)) : config.magnitude;
  auto* out = memory->as<float>();
  for (std::int32_t position = 0; position < context; ++position, out += 2 * half)
    for (std::size_t i = 0; i < half; ++i) {
      const double angle = position * frequency[i];
      out[i] = static_cast<float>(magnitude * std::cos(angle));
      out[half + i] = static_cast<float>(magnitude * std::sin(angle));
    }
  return rope_table(static_cast<std::int32_t>(half), std::move(*memory));
}

}  // namespace kvern::gpu::cpu
