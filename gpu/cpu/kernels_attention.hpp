#pragma once

// Attention of a tile of query vectors with one block of keys, over the sixteen lanes of a simd_*.hpp; see
// kernels_elementwise.hpp and kernels_lines.hpp, which are included first. What a vector gets is computed in an order
// of its own: neither the other vectors of the tile nor lines that it does not see take part.

#include "gpu/cpu/kernels.hpp"

namespace kvern::gpu::cpu {
namespace {

template <class E>
inline const typename E::value* values_of(const void* line) {
  return static_cast<const typename E::value*>(line);
}

/// Asks memory for what lies `distance` bytes behind values [d, d + 16) of a line, once for each 64 bytes. Always
/// inline: g++ 12 takes a function that only prefetches for one that does nothing, and drops the call.
template <class E>
[[gnu::always_inline]] inline void fetch(const void* line, int d, std::int64_t distance) {
  constexpr int bytes = sizeof(typename E::value);
  if (distance != 0 && d * bytes % 64 == 0)
    __builtin_prefetch(static_cast<const std::byte*>(line) + d * bytes + distance);
}

/// k_scratch[d][j] = K of key j, zeros where there is none.
template <class E>
inline void spread_keys(const attention_block& a) {
  using value = typename E::value;
  static constexpr value zeros[16] = {};
  const bool full = a.begin == 0 && a.end == block_lines;
  for (int d = 0; d < a.head_dim; d += 16) {
    const int left = a.head_dim - d;
    for (int j0 = 0; j0 < block_lines; j0 += 16) {
      value padded[16][16];
      const value* lines[16];
      for (int j = 0; j < 16; ++j) {
        const bool exists = full || (j0 + j >= a.begin && j0 + j < a.end);
        lines[j] = exists ? values_of<E>(a.k[j0 + j]) + d : zeros;
        if (exists) fetch<E>(a.k[j0 + j], d, a.fetch_k);
      }
      for (int j = 0; j < 16 && left < 16; ++j) {
        if (lines[j] == zeros) continue;
        for (int i = 0; i < 16; ++i) padded[j][i] = i < left ? lines[j][i] : value{};
        lines[j] = padded[j];
      }
      E::transpose_lines(lines, a.k_scratch + d * 32 + j0);
    }
  }
}

/// v_scratch[j][d] = V of key j, zeros behind the last dimension.
template <class E>
inline void widen_values(const attention_block& a) {
  for (int j = a.begin; j < a.end; ++j) {
    float* const out = a.v_scratch + j * a.width;
    for (int d = 0; d < a.head_dim; d += 16) fetch<E>(a.v[j], d, a.fetch_v);
    widen<E>(values_of<E>(a.v[j]), out, a.head_dim);
    for (int d = a.head_dim; d < a.width; ++d) out[d] = 0;
  }
}

/// out[g][j] = scale g of key j, zeros where there is none.
inline void gather_scales(const attention_block& a, const void* const* lines, std::int64_t distance, float* out) {
  // With scales behind them values begin anywhere: the last ones may lie 64 bytes on from what has been asked for.
  for (int j = a.begin; j < a.end && distance != 0; ++j) {
    const std::byte* const next = static_cast<const std::byte*>(lines[j]) + distance;
    __builtin_prefetch(next + a.head_dim - 1);
    __builtin_prefetch(next + a.scales_at);
  }
  for (int g = 0; g < a.groups; ++g) {
    alignas(64) std::uint16_t halves[block_lines] = {};
    for (int j = a.begin; j < a.end; ++j) {
      const auto at = a.scales_at + g * std::int64_t{sizeof(std::uint16_t)};
      __builtin_memcpy(halves + j, static_cast<const std::byte*>(lines[j]) + at, sizeof(std::uint16_t));
    }
    store(out + 32 * g, load_half(halves));
    store(out + 32 * g + 16, load_half(halves + 16));
  }
}

/// Scores of M vectors over dimensions [d, end).
template <int M>
inline void multiply_keys(const attention_block& a, int first, int d, int end, vf (*s)[2]) {
  for (int m = 0; m < M; ++m) s[m][0] = s[m][1] = broadcast(0.0F);
  for (; d < end; ++d) {
    const vf k0 = load(a.k_scratch + d * 32), k1 = load(a.k_scratch + d * 32 + 16);
    const float* const q = a.q + d * attention_tile + first;
    for (int m = 0; m < M; ++m) {
      const vf x = broadcast(q[m]);
      s[m][0] = fma(x, k0, s[m][0]);
      s[m][1] = fma(x, k1, s[m][1]);
    }
  }
}

template <int M, bool Scaled>
inline void scores(const attention_block& a, int first) {
  float* const w = a.weights + first * 32;
  vf s[M][2];
  if constexpr (!Scaled) {
    multiply_keys<M>(a, first, 0, a.head_dim, s);
    for (int m = 0; m < M; ++m) {
      store(w + m * 32, s[m][0]);
      store(w + m * 32 + 16, s[m][1]);
    }
  } else {
    for (int g = 0; g < a.groups; ++g) {
      const int d = g * scale_dims, end = g + 1 < a.groups ? d + scale_dims : a.head_dim;
      multiply_keys<M>(a, first, d, end, s);
      for (int half = 0; half < 2; ++half) {
        const vf scale = load(a.k_scales + 32 * g + 16 * half);
        for (int m = 0; m < M; ++m) {
          float* const to = w + m * 32 + 16 * half;
          store(to, g == 0 ? mul(s[m][half], scale) : fma(s[m][half], scale, load(to)));
        }
      }
    }
  }
}

template <bool Scaled>
inline void all_scores(const attention_block& a) {
  int i = 0;
  for (; i + attention_rows <= a.vectors; i += attention_rows) scores<attention_rows, Scaled>(a, i);
  if constexpr (attention_rows == 8) {
    for (; i + 3 <= a.vectors; i += 3) scores<3, Scaled>(a, i);
    for (; i + 2 <= a.vectors; i += 2) scores<2, Scaled>(a, i);
  }
  for (; i < a.vectors; ++i) scores<1, Scaled>(a, i);
}

/// Scores to exp(score - maximum), sums and maxima brought up to date. change[i] is what vector i's sums so far must be
/// multiplied with.
inline void soften(const attention_block& a, float* change) {
  const vf outside = broadcast(-__builtin_inff());
  for (int i = 0; i < a.vectors; ++i) {
    change[i] = 0;
    if (a.first[i] == a.last[i]) continue;
    float* const w = a.weights + i * 32;
    vf s0 = load(w), s1 = load(w + 16);
    if (a.cap > 0) {
      const vf cap = broadcast(a.cap), inverse = broadcast(1 / a.cap);
      s0 = soft_cap(s0, cap, inverse);
      s1 = soft_cap(s1, cap, inverse);
    }
    if (a.last[i] < block_lines) {
      s0 = first_lanes(a.last[i], s0, outside);
      s1 = first_lanes(a.last[i] - 16, s1, outside);
    }
    if (a.first[i] > 0) {
      s0 = first_lanes(a.first[i], outside, s0);
      s1 = first_lanes(a.first[i] - 16, outside, s1);
    }
    store(w, s0);
    store(w + 16, s1);
    const float peak = largest(max(s0, s1)), before = a.largest[i];
    const float now = before > peak ? before : peak;
    a.largest[i] = now;
    change[i] = before - now;
  }
  for (int i = 0; i < a.vectors; i += 16) store(change + i, exponential(load(change + i)));
  for (int i = 0; i < a.vectors; ++i) {
    if (a.first[i] == a.last[i]) continue;
    float* const w = a.weights + i * 32;
    const vf top = broadcast(a.largest[i]);
    const vf p0 = exponential(sub(load(w), top)), p1 = exponential(sub(load(w + 16), top));
    store(w, p0);
    store(w + 16, p1);
    a.total[i] = a.total[i] * change[i] + sum(add(p0, p1));
  }
}

/// acc[m][d, d + 16 C) for M vectors that see the same keys; value(j, d) is V of key j. Weights are w[m][32], and with
/// Scaled those of every further scale_dims dimensions `step` floats on.
template <int M, int C, bool Scaled, class F>
inline void weigh(const attention_block& a, int first, int d, const float* change, const float* w, int step, F value) {
  constexpr int spans = Scaled ? (C + 1) / 2 : 1;
  vf s[M][C];
  for (int m = 0; m < M; ++m) {
    const vf c = broadcast(change[m]);
    for (int i = 0; i < C; ++i) s[m][i] = mul(load(a.acc + (first + m) * a.width + d + 16 * i), c);
  }
  for (int j = a.first[first]; j < a.last[first]; ++j) {
    vf v[C];
    for (int i = 0; i < C; ++i) v[i] = value(j, d + 16 * i);
    for (int m = 0; m < M; ++m) {
      vf p[spans];
      for (int i = 0; i < spans; ++i) p[i] = broadcast(w[i * step + m * 32 + j]);
      for (int i = 0; i < C; ++i) s[m][i] = fma(p[i * spans / C], v[i], s[m][i]);
    }
  }
  for (int m = 0; m < M; ++m) {
    for (int i = 0; i < C; ++i) store(a.acc + (first + m) * a.width + d + 16 * i, s[m][i]);
  }
}

template <int M, bool Scaled, class F>
inline void weigh_all(const attention_block& a, int first, const float* change, F value) {
  constexpr int wide = attention_rows >= 8 ? 4 : 2;
  const float* w = a.weights + first * 32;
  const int step = a.groups > 1 ? M * 32 : 0;
  if constexpr (Scaled) {
    for (int g = 0; g < a.groups; ++g) {
      for (int m = 0; m < 2 * M; ++m) {
        store(a.scaled + (g * 2 * M + m) * 16, mul(load(w + m * 16), load(a.v_scales + g * 32 + m % 2 * 16)));
      }
    }
    w = a.scaled;
  }
  int d = 0;
  const auto at = [&] { return w + d / scale_dims * step; };
  for (; d + 16 * wide <= a.width; d += 16 * wide) weigh<M, wide, Scaled>(a, first, d, change, at(), step, value);
  for (; d < a.width; d += 16) weigh<M, 1, Scaled>(a, first, d, change, at(), step, value);
}

template <bool Scaled, class F>
inline void weigh_vectors(const attention_block& a, const float* change, F value) {
  constexpr int most = attention_rows >= 8 ? 4 : 2;
  for (int i = 0; i < a.vectors;) {
    int same = 1;
    while (same < most && i + same < a.vectors && a.first[i + same] == a.first[i] && a.last[i + same] == a.last[i])
      ++same;
    if (a.first[i] < a.last[i]) {
      if constexpr (most == 4) {
        if (same == 4) weigh_all<4, Scaled>(a, i, change + i, value);
        if (same == 3) weigh_all<3, Scaled>(a, i, change + i, value);
      }
      if (same == 2) weigh_all<2, Scaled>(a, i, change + i, value);
      if (same == 1) weigh_all<1, Scaled>(a, i, change + i, value);
    }
    i += same;
  }
}

template <class E>
inline void attend_lines(const attention_block& a) {
  spread_keys<E>(a);
  if constexpr (E::scaled) {
    gather_scales(a, a.k, a.fetch_k, a.k_scales);
    gather_scales(a, a.v, a.fetch_v, a.v_scales);
  }
  all_scores<E::scaled>(a);
  alignas(64) float change[attention_tile] = {};
  soften(a, change);
  // A few vectors read V where it lies; for more it is widened once.
  if (a.vectors <= 4 && a.width == a.head_dim) {
    weigh_vectors<E::scaled>(a, change, [&a](int j, int d) {
      fetch<E>(a.v[j], d, a.fetch_v);
      return E::widen(values_of<E>(a.v[j]) + d);
    });
  } else {
    widen_values<E>(a);
    weigh_vectors<E::scaled>(a, change, [&a](int j, int d) { return load(a.v_scratch + j * a.width + d); });
  }
}

void attend_kernel(const attention_block& a) {
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
  for (int i = 0; i < vectors; ++i) {
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
    const float top = largest_a[i] > largest_b[i] ? largest_a[i] : largest_b[i];
    alignas(64) float scale_a[16], scale_b[16];
    store(scale_a, exponential(broadcast(largest_a[i] - top)));
    store(scale_b, exponential(broadcast(largest_b[i] - top)));
    const vf a = broadcast(scale_a[0]), b = broadcast(scale_b[0]);
    for (int d = 0; d < width; d += 16) store(to + d, fma(load(to + d), a, mul(load(from + d), b)));
    largest_a[i] = top;
    total_a[i] = total_a[i] * scale_a[0] + total_b[i] * scale_b[0];
  }
}

void finish_kernel(const float* acc, float total, float* out, std::int64_t n) {
  const vf divisor = broadcast(total);
  map(acc, acc, out, n, [&](vf x, vf) { return div(x, divisor); });
}

}  // namespace
}  // namespace kvern::gpu::cpu
