#pragma once

#include <cstdint>

#include "gpu/cpu/matrix.hpp"

namespace kvern::gpu::cpu {

/// x[i] = cap * tanh(x[i] / cap) within 2^-21 * cap: large values end at the cap, small ones stay. The same bits with
/// every isa. `cap` is above 0.
void soft_cap(float* x, float cap, std::int64_t n, isa i);

}  // namespace kvern::gpu::cpu
