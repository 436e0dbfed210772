#include "gpu/cpu/ops.hpp"

#include "gpu/cpu/kernels.hpp"

namespace kvern::gpu::cpu {

void rms_norm(const float* x, const float* weight, float eps, float* out, std::int64_t n, isa i) {
  kernels_for(i).rms_norm(x, weight, eps, out, n);
}

void silu_mul(const float* gate, const float* up, float* out, std::int64_t n, isa i) {
  kernels_for(i).silu_mul(gate, up, out, n);
}

void gelu_mul(const float* gate, const float* up, float* out, std::int64_t n, isa i) {
  kernels_for(i).gelu_mul(gate, up, out, n);
}

void add(const float* a, const float* b, float* out, std::int64_t n, isa i) { kernels_for(i).add(a, b, out, n); }

void exp(const float* x, float* out, std::int64_t n, isa i) { kernels_for(i).exp(x, out, n); }

void soft_cap(const float* x, float cap, float* out, std::int64_t n, isa i) { kernels_for(i).soft_cap(x, cap, out, n); }

void rope(float* x, int heads, int head_dim, int n_rot, const float* cos, const float* sin, rope_pairing pairing,
          isa i) {
  const kernels& k = kernels_for(i);
  const int pairs = n_rot / 2;
  for (int h = 0; h < heads; ++h) {
    float* const head = x + static_cast<std::int64_t>(h) * head_dim;
    if (pairing == rope_pairing::neox) {
      k.rotate(head, head + pairs, cos, sin, pairs);
    } else {
      k.rotate_adjacent(head, cos, sin, pairs);
    }
  }
}

void to_half(const float* x, std::uint16_t* out, std::int64_t n, isa i) { kernels_for(i).narrow_half(x, out, n); }

void from_half(const std::uint16_t* x, float* out, std::int64_t n, isa i) { kernels_for(i).widen_half(x, out, n); }

}  // namespace kvern::gpu::cpu
