#include "gpu/cpu/soft_cap.hpp"

#include <algorithm>

#include "gpu/cpu/ops.hpp"

namespace kvern::gpu::cpu {

void soft_cap(float* x, float cap, std::int64_t n, isa i) {
  constexpr std::int64_t chunk = 512;
  float power[chunk];
  const float twice = 2.0F / cap;
  for (std::int64_t first = 0; first < n; first += chunk) {
    const std::int64_t count = std::min(chunk, n - first);
    float* const at = x + first;
    for (std::int64_t k = 0; k < count; ++k) power[k] = at[k] * twice;
    exp(power, power, count, i);
    for (std::int64_t k = 0; k < count; ++k) at[k] = cap * (1.0F - 2.0F / (1.0F + power[k]));
  }
}

}  // namespace kvern::gpu::cpu
