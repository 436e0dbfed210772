#pragma once

// Weighted values of a round for a tile of query vectors: part of kernels_attention.hpp. A sum is one chain of
// additions over the keys that the vector sees, ascending, sixteen dimensions side by side.

#include "gpu/cpu/kernels.hpp"

namespace kvern::gpu::cpu {
namespace {

/// Asks memory for K that is needed a round later than line `line`: bytes [from, to) of the head.
template <class E>
[[gnu::always_inline]] inline void fetch_keys(const attention_round& a, int line, std::int64_t distance, int from,
                                              int to) {
  const std::byte* const later = head_of(a, a.k[line]) + distance;
  for (int at = from; at < to; at += 64) fetch_later(later + at);
}

/// v_scratch[j] = V of key j in dimensions [d, d + columns), zeros behind the last one.
template <class E>
inline void widen_values(const attention_round& a, int d, int columns) {
  constexpr int bytes = sizeof(typename E::value);
  const int left = a.head_dim - d < columns ? a.head_dim - d : columns;
  for (int b = 0; b < round_blocks; ++b) {
    for (int j = b * block_lines + a.begin[b]; j < b * block_lines + a.end[b]; ++j) {
      float* const out = a.v_scratch + j * value_columns;
      fetch_keys<E>(a, j, a.next[b], d * bytes, (d + left) * bytes);
      widen<E>(values_of<E>(a, a.v[j]) + d, out, left);
      for (int i = left; i < columns; ++i) out[i] = 0;
    }
  }
}

/// acc[m][d, d + 16 C) for M vectors and keys [begin, end), which they all see. V is read where it lies, or, when not
/// Direct, in v_scratch, which begins at a dimension that value_columns divides. Weights are w[m][128], and with scales
/// those of every further scale_dims dimensions `step` floats on.
template <class E, bool Direct, int M, int C>
inline void add_values(const attention_round& a, int first, int begin, int end, int d, bool fresh, const float* w,
                       int step) {
  constexpr int spans = E::scaled ? (C + 1) / 2 : 1, bytes = sizeof(typename E::value);
  vf s[M][C];
  for (int m = 0; m < M; ++m)
    for (int i = 0; i < C; ++i)
      s[m][i] = fresh ? broadcast(0.0F) : load(a.acc + std::int64_t{first + m} * a.width + d + 16 * i);
  for (int j = begin; j < end;) {
    const int b = j / block_lines, stop = end < (b + 1) * block_lines ? end : (b + 1) * block_lines;
    const std::int64_t distance = a.next[b];
    for (; j < stop; ++j) {
      vf v[C];
      if constexpr (Direct) {
        const auto* const line = values_of<E>(a, a.v[j]) + d;
        for (int i = 0; i < C; ++i) v[i] = E::widen(line + 16 * i);
        fetch_keys<E>(a, j, distance, d * bytes, (d + 16 * C) * bytes);
      } else {
        const float* const line = a.v_scratch + j * value_columns + d % value_columns;
        for (int i = 0; i < C; ++i) v[i] = load(line + 16 * i);
      }
      for (int m = 0; m < M; ++m) {
        vf p[spans];
        for (int i = 0; i < spans; ++i) p[i] = broadcast(w[i * step + m * round_lines + j]);
        for (int i = 0; i < C; ++i) s[m][i] = fma(p[i * spans / C], v[i], s[m][i]);
      }
    }
  }
  for (int m = 0; m < M; ++m)
    for (int i = 0; i < C; ++i) store(a.acc + std::int64_t{first + m} * a.width + d + 16 * i, s[m][i]);
}

/// The same for dimensions [d, d + columns), at most value_columns.
template <class E, bool Direct, int M>
inline void add_columns(const attention_round& a, int first, int begin, int end, int d, int columns, bool fresh) {
  constexpr int wide = attention_rows >= 8 ? 4 : 2;
  const float* w = a.weights + first * round_lines;
  alignas(64) float scaled[E::scaled ? value_columns / scale_dims * M * round_lines : 1];
  int step = 0;
  if constexpr (E::scaled) {
    const int spans = a.groups > 1 ? (columns + scale_dims - 1) / scale_dims : 1;
    step = a.groups > 1 ? M * round_lines : 0;
    for (int g = 0; g < spans; ++g) {
      const float* const scales = a.v_scales + (a.groups > 1 ? d / scale_dims + g : 0) * round_lines;
      for (int m = 0; m < M; ++m)
        for (int j = begin / 16 * 16; j < end; j += 16)
          store(scaled + (g * M + m) * round_lines + j, mul(load(w + m * round_lines + j), load(scales + j)));
    }
    w = scaled;
  }
  int at = 0;
  for (; at + 16 * wide <= columns; at += 16 * wide)
    add_values<E, Direct, M, wide>(a, first, begin, end, d + at, fresh, w + at / scale_dims * step, step);
  for (; at < columns; at += 16)
    add_values<E, Direct, M, 1>(a, first, begin, end, d + at, fresh, w + at / scale_dims * step, step);
}

/// Vectors [first, first + count), at most four, or two.
template <class E, bool Direct>
inline void add_group(const attention_round& a, int first, int count, int begin, int end, int d, int columns,
                      bool fresh) {
  if constexpr (attention_rows >= 8) {
    if (count == 4) return add_columns<E, Direct, 4>(a, first, begin, end, d, columns, fresh);
    if (count == 3) return add_columns<E, Direct, 3>(a, first, begin, end, d, columns, fresh);
  }
  if (count == 2) return add_columns<E, Direct, 2>(a, first, begin, end, d, columns, fresh);
  add_columns<E, Direct, 1>(a, first, begin, end, d, columns, fresh);
}

template <class E, bool Direct>
inline void add_slab(const attention_round& a, int d, int columns) {
  constexpr int most = attention_rows >= 8 ? 4 : 2;
  if (a.whole) {
    for (int i = 0; i < a.vectors; i += most)
      add_group<E, Direct>(a, i, a.vectors - i < most ? a.vectors - i : most, 0, round_lines, d, columns, true);
    return;
  }
  for (int i = 0; i < a.vectors; ++i)
    for (int at = d; at < d + columns; at += 16) store(a.acc + std::int64_t{i} * a.width + at, broadcast(0.0F));
  for (int b = 0; b < round_blocks; ++b) {
    const int* const low = a.first[b];
    const int* const high = a.last[b];
    for (int i = 0, same = 1; i < a.vectors; i += same) {
      for (same = 1; same < most && i + same < a.vectors && low[i + same] == low[i] && high[i + same] == high[i];)
        ++same;
      const int start = b * block_lines;
      if (low[i] < high[i]) add_group<E, Direct>(a, i, same, start + low[i], start + high[i], d, columns, false);
    }
  }
}

template <class E>
inline void weigh_values(const attention_round& a) {
  if constexpr (E::scaled) {
    for (int b = 0; b < round_blocks; ++b)
      if (a.begin[b] < a.end[b]) gather_scales(a, b, a.v, a.v_scales + b * block_lines, round_lines);
  }
  for (int d = 0; d < a.width; d += value_columns) {
    const int columns = a.width - d < value_columns ? a.width - d : value_columns;
    // A few vectors read V where it lies; for more it is widened once.
    if (a.vectors <= 4 && a.width == a.head_dim) {
      add_slab<E, true>(a, d, columns);
    } else {
      widen_values<E>(a, d, columns);
      add_slab<E, false>(a, d, columns);
    }
  }
}

}  // namespace
}  // namespace kvern::gpu::cpu
