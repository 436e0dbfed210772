#pragma once

#include <cstdint>

#include "gpu/cpu/matrix.hpp"

namespace kvern::gpu::cpu {

// Elementwise operations on rows of float32, without threads: callers spread rows over their team. The results are the
// same bits with every isa. Any length works; out may be an input.

/// out[i] = x[i] * weight[i] / sqrt(mean of squares + eps). The squares are added in sixteen partial sums.
void rms_norm(const float* x, const float* weight, float eps, float* out, std::int64_t n, isa i);

/// out[i] = gate[i] * sigmoid(gate[i]) * up[i] (SwiGLU).
void silu_mul(const float* gate, const float* up, float* out, std::int64_t n, isa i);

/// out[i] = gelu(gate[i]) * up[i] with the tanh form of GELU (GeGLU).
void gelu_mul(const float* gate, const float* up, float* out, std::int64_t n, isa i);

/// out[i] = a[i] + b[i].
void add(const float* a, const float* b, float* out, std::int64_t n, isa i);

/// out[i] = e^x[i] within 2 ulp; results below the smallest normal float are 0, above the largest infinite.
void exp(const float* x, float* out, std::int64_t n, isa i);

/// out[i] = cap * tanh(x[i] / cap), cap > 0; the tanh within 4 ulp.
void soft_cap(const float* x, float cap, float* out, std::int64_t n, isa i);

/// Which elements of a head turn together.
enum class rope_pairing {
  norm,  ///< (2 i, 2 i + 1)
  neox,  ///< (i, i + n_rot / 2)
};

/// Rotates the first `n_rot` (even, <= head_dim) elements of each of `heads` heads [heads][head_dim] in place; pair i
/// by the angle of cosine cos[i] and sine sin[i], [n_rot / 2] each.
void rope(float* x, int heads, int head_dim, int n_rot, const float* cos, const float* sin, rope_pairing pairing,
          isa i);

/// Round to nearest even; beyond f16's range infinite.
void to_half(const float* x, std::uint16_t* out, std::int64_t n, isa i);
void from_half(const std::uint16_t* x, float* out, std::int64_t n, isa i);

}  // namespace kvern::gpu::cpu
