#pragma once

// Attention of a tile of query vectors with one block of keys, over the sixteen lanes of a simd_*.hpp; see
// kernels_elementwise.hpp, which is included first. What a vector gets is computed in an order of its own: neither the
// other vectors of the tile nor the lines behind its last key take part.

#include "gpu/cpu/kernels.hpp"

namespace kvern::gpu::cpu {
namespace {

inline void transpose_lines(const std::uint16_t* const* lines, float* out) { transpose_half(lines, out); }
inline void transpose_lines(const float* const* lines, float* out) { transpose_float(lines, out); }

inline void widen_line(const std::uint16_t* line, float* out, int n) { widen_half_kernel(line, out, n); }
inline void widen_line(const float* line, float* out, int n) {
  for (int d = 0; d < n; d += 16) store_some(out + d, load_some(line + d, n - d), n - d);
}

inline vf load_value(const float* p) { return load(p); }
inline vf load_value(const std::uint16_t* p) { return load_half(p); }

/// k_scratch[d][j] = K of key j, zeros behind the last key.
template <class T>
inline void spread_keys(const attention_block& a) {
  static constexpr T zeros[16] = {};
  for (int d = 0; d < a.head_dim; d += 16) {
    const int left = a.head_dim - d;
    for (int j0 = 0; j0 < block_lines; j0 += 16) {
      T padded[16][16];
      const T* lines[16];
      for (int j = 0; j < 16; ++j) {
        lines[j] = j0 + j < a.lines ? static_cast<const T*>(a.k[j0 + j]) + d : zeros;
        if (left >= 16) continue;
        for (int i = 0; i < 16; ++i) padded[j][i] = i < left ? lines[j][i] : T{};
        lines[j] = padded[j];
      }
      transpose_lines(lines, a.k_scratch + d * 32 + j0);
    }
  }
}

/// v_scratch[j][d] = V of key j, zeros behind the last dimension.
template <class T>
inline void widen_values(const attention_block& a) {
  for (int j = 0; j < a.lines; ++j) {
    float* const out = a.v_scratch + j * a.width;
    widen_line(static_cast<const T*>(a.v[j]), out, a.head_dim);
    for (int d = a.head_dim; d < a.width; ++d) out[d] = 0;
  }
}

template <int M>
inline void scores(const attention_block& a, int first) {
  vf s[M][2];
  for (int m = 0; m < M; ++m) s[m][0] = s[m][1] = broadcast(0.0F);
  for (int d = 0; d < a.head_dim; ++d) {
    const vf k0 = load(a.k_scratch + d * 32), k1 = load(a.k_scratch + d * 32 + 16);
    const float* const q = a.q + d * attention_tile + first;
    for (int m = 0; m < M; ++m) {
      const vf x = broadcast(q[m]);
      s[m][0] = fma(x, k0, s[m][0]);
      s[m][1] = fma(x, k1, s[m][1]);
    }
  }
  for (int m = 0; m < M; ++m) {
    store(a.weights + (first + m) * 32, s[m][0]);
    store(a.weights + (first + m) * 32 + 16, s[m][1]);
  }
}

/// Scores to exp(score - maximum), sums and maxima brought up to date. change[i] is what vector i's sums so far must be
/// multiplied with.
inline void soften(const attention_block& a, float* change) {
  const vf outside = broadcast(-__builtin_inff());
  for (int i = 0; i < a.vectors; ++i) {
    change[i] = 0;
    if (a.keys[i] == 0) continue;
    float* const w = a.weights + i * 32;
    vf s0 = load(w), s1 = load(w + 16);
    if (a.keys[i] < block_lines) {
      s0 = first_lanes(a.keys[i], s0, outside);
      s1 = first_lanes(a.keys[i] - 16, s1, outside);
      store(w, s0);
      store(w + 16, s1);
    }
    const float peak = largest(max(s0, s1)), before = a.largest[i];
    const float now = before > peak ? before : peak;
    a.largest[i] = now;
    change[i] = before - now;
  }
  for (int i = 0; i < a.vectors; i += 16) store(change + i, exponential(load(change + i)));
  for (int i = 0; i < a.vectors; ++i) {
    if (a.keys[i] == 0) continue;
    float* const w = a.weights + i * 32;
    const vf top = broadcast(a.largest[i]);
    const vf p0 = exponential(sub(load(w), top)), p1 = exponential(sub(load(w + 16), top));
    store(w, p0);
    store(w + 16, p1);
    a.total[i] = a.total[i] * change[i] + sum(add(p0, p1));
  }
}

/// acc[m][d, d + 16 C) for M vectors that see the same `keys`; line(j) is V of key j.
template <int M, int C, class F>
inline void weigh(const attention_block& a, int first, int keys, int d, const float* change, F line) {
  vf s[M][C];
  for (int m = 0; m < M; ++m) {
    const vf c = broadcast(change[m]);
    for (int i = 0; i < C; ++i) s[m][i] = mul(load(a.acc + (first + m) * a.width + d + 16 * i), c);
  }
  const float* const w = a.weights + first * 32;
  for (int j = 0; j < keys; ++j) {
    vf v[C];
    for (int i = 0; i < C; ++i) v[i] = load_value(line(j) + d + 16 * i);
    for (int m = 0; m < M; ++m) {
      const vf p = broadcast(w[m * 32 + j]);
      for (int i = 0; i < C; ++i) s[m][i] = fma(p, v[i], s[m][i]);
    }
  }
  for (int m = 0; m < M; ++m) {
    for (int i = 0; i < C; ++i) store(a.acc + (first + m) * a.width + d + 16 * i, s[m][i]);
  }
}

template <int M, class F>
inline void weigh_all(const attention_block& a, int first, int keys, const float* change, F line) {
  constexpr int wide = attention_rows >= 8 ? 4 : 2;
  int d = 0;
  for (; d + 16 * wide <= a.width; d += 16 * wide) weigh<M, wide>(a, first, keys, d, change, line);
  for (; d < a.width; d += 16) weigh<M, 1>(a, first, keys, d, change, line);
}

template <class F>
inline void weigh_vectors(const attention_block& a, const float* change, F line) {
  constexpr int most = attention_rows >= 8 ? 4 : 2;
  for (int i = 0; i < a.vectors;) {
    const int keys = a.keys[i];
    int same = 1;
    while (same < most && i + same < a.vectors && a.keys[i + same] == keys) ++same;
    if (keys > 0) {
      if constexpr (most == 4) {
        if (same == 4) weigh_all<4>(a, i, keys, change + i, line);
        if (same == 3) weigh_all<3>(a, i, keys, change + i, line);
      }
      if (same == 2) weigh_all<2>(a, i, keys, change + i, line);
      if (same == 1) weigh_all<1>(a, i, keys, change + i, line);
    }
    i += same;
  }
}

template <class T>
inline void attend_lines(const attention_block& a) {
  spread_keys<T>(a);
  int i = 0;
  for (; i + attention_rows <= a.vectors; i += attention_rows) scores<attention_rows>(a, i);
  if constexpr (attention_rows == 8) {
    for (; i + 3 <= a.vectors; i += 3) scores<3>(a, i);
    for (; i + 2 <= a.vectors; i += 2) scores<2>(a, i);
  }
  for (; i < a.vectors; ++i) scores<1>(a, i);

  alignas(64) float change[attention_tile] = {};
  soften(a, change);
  // A few vectors read V where it lies; for more it is widened once.
  if (a.vectors <= 4 && a.width == a.head_dim) {
    weigh_vectors(a, change, [&a](int j) { return static_cast<const T*>(a.v[j]); });
  } else {
    widen_values<T>(a);
    weigh_vectors(a, change, [&a](int j) { return static_cast<const float*>(a.v_scratch + j * a.width); });
  }
}

void attend_kernel(const attention_block& a) { a.half ? attend_lines<std::uint16_t>(a) : attend_lines<float>(a); }

void merge_kernel(int vectors, int width, float* largest_a, float* total_a, float* acc_a, const float* largest_b,
                  const float* total_b, const float* acc_b) {
  for (int i = 0; i < vectors; ++i) {
    const float top = largest_a[i] > largest_b[i] ? largest_a[i] : largest_b[i];
    alignas(64) float scale_a[16], scale_b[16];
    store(scale_a, exponential(broadcast(largest_a[i] - top)));
    store(scale_b, exponential(broadcast(largest_b[i] - top)));
    const vf a = broadcast(scale_a[0]), b = broadcast(scale_b[0]);
    for (int d = 0; d < width; d += 16) {
      float* const to = acc_a + i * width + d;
      store(to, fma(load(to), a, mul(load(acc_b + i * width + d), b)));
    }
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
