#pragma once

// Attention of a tile of query vectors with one round of keys, over the sixteen lanes of a simd_*.hpp; see
// kernels_elementwise.hpp and kernels_lines.hpp, which are included first. What a vector gets is computed in an order
// of its own: neither the other vectors of the tile nor lines that it does not see take part.

#include "gpu/cpu/kernels.hpp"
#include "gpu/cpu/kernels_attention_keys.hpp"
#include "gpu/cpu/kernels_attention_values.hpp"

namespace kvern::gpu::cpu {
namespace {

constexpr int round_parts = round_lines / 16;

/// `inside` in the lanes that hold keys which vector `i` sees, of part `part` of the round.
inline vf where_seen(const attention_round& a, int i, int part, vf inside, vf outside) {
  const int b = part / 2, start = part % 2 * 16;
  return first_lanes(a.first[b][i] - start, outside, first_lanes(a.last[b][i] - start, inside, outside));
}

/// Scores of vector `i` to weights 2^(score - maximum), with their maximum and sum.
template <bool Whole>
inline void soften(const attention_round& a, int i) {
  const vf nothing = broadcast(-__builtin_inff()), zero = broadcast(0.0F);
  float* const w = a.weights + i * round_lines;
  vf s[round_parts];
  for (int n = 0; n < round_parts; ++n) {
    s[n] = load(w + 16 * n);
    if (a.cap > 0) s[n] = soft_cap(s[n], broadcast(a.cap), broadcast(1 / a.cap));
    if constexpr (!Whole) s[n] = where_seen(a, i, n, s[n], nothing);
  }
  vf peaks[round_parts / 2];
  for (int n = 0; n < round_parts / 2; ++n) peaks[n] = max(s[2 * n], s[2 * n + 1]);
  const float peak = largest(max(max(peaks[0], peaks[1]), max(peaks[2], peaks[3])));
  const vf top = broadcast(peak);
  for (int n = 0; n < round_parts; ++n) {
    s[n] = power_of_two(sub(s[n], top));
    if constexpr (!Whole) s[n] = where_seen(a, i, n, s[n], zero);
    store(w + 16 * n, s[n]);
  }
  vf sums[round_parts / 2];
  for (int n = 0; n < round_parts / 2; ++n) sums[n] = add(s[2 * n], s[2 * n + 1]);
  a.largest[i] = peak;
  a.total[i] = sum(add(add(sums[0], sums[1]), add(sums[2], sums[3])));
}

inline bool sees_nothing(const attention_round& a, int i) {
  for (int b = 0; b < round_blocks; ++b)
    if (a.first[b][i] < a.last[b][i]) return false;
  return true;
}

inline void soften_all(const attention_round& a) {
  for (int i = 0; i < a.vectors; ++i) {
    if (a.whole) {
      soften<true>(a, i);
    } else if (sees_nothing(a, i)) {
      a.largest[i] = -__builtin_inff();
      a.total[i] = 0;
    } else {
      soften<false>(a, i);
    }
  }
}

template <class E>
inline void attend_lines(const attention_round& a) {
  for (int b = 0; b < round_blocks; ++b)
    if (a.begin[b] < a.end[b]) score_block<E>(a, b);
  soften_all(a);
  weigh_values<E>(a);
}

void attend_kernel(const attention_round& a) {
  switch (a.element) {
    case line_element::f32:
      return attend_lines<f32_line>(a);
    case line_element::f16:
      return attend_lines<f16_line>(a);
    case line_element::bf16:
      return attend_lines<bf16_line>(a);
    case line_element::int8:
      return attend_lines<int8_line>(a);
  }
}

void merge_kernel(int vectors, int width, float* largest_a, float* total_a, float* acc_a, const float* largest_b,
                  const float* total_b, const float* acc_b) {
  for (int first = 0; first < vectors; first += 16) {
    const int count = vectors - first < 16 ? vectors - first : 16;
    const vf before = load_some(largest_a + first, count), here = load_some(largest_b + first, count);
    const vf top = max(before, here);
    alignas(64) float tops[16], scale_a[16], scale_b[16];
    store(tops, top);
    store(scale_a, power_of_two(sub(before, top)));
    store(scale_b, power_of_two(sub(here, top)));
    for (int n = 0; n < count; ++n) {
      const int i = first + n;
      // The largest weight is 1: a sum of 0 has seen no key. Nothing is multiplied then: a zero could lose its sign.
      if (total_b[i] == 0) continue;
      float* const to = acc_a + std::int64_t{i} * width;
      const float* const from = acc_b + std::int64_t{i} * width;
      if (total_a[i] == 0) {
        largest_a[i] = largest_b[i];
        total_a[i] = total_b[i];
        for (int d = 0; d < width; d += 16) store(to + d, load(from + d));
        continue;
      }
      const vf a = broadcast(scale_a[n]), b = broadcast(scale_b[n]);
      for (int d = 0; d < width; d += 16) store(to + d, fma(load(to + d), a, mul(load(from + d), b)));
      largest_a[i] = tops[n];
      total_a[i] = total_a[i] * scale_a[n] + total_b[i] * scale_b[n];
    }
  }
}

void finish_kernel(const float* acc, float total, float* out, std::int64_t n) {
  const vf divisor = broadcast(total);
  map(acc, acc, out, n, [&](vf x, vf) { return div(x, divisor); });
}

}  // namespace
}  // namespace kvern::gpu::cpu
