#pragma once

// Scores of a tile of query vectors with the keys of a round: part of kernels_attention.hpp. A score is one chain of
// additions over the dimensions (of each scale's, for int8), sixteen keys side by side.

#include "gpu/cpu/kernels.hpp"

namespace kvern::gpu::cpu {
namespace {

inline const std::byte* head_of(const attention_round& a, const void* line) {
  return static_cast<const std::byte*>(line) + a.offset;
}

template <class E>
inline const typename E::value* values_of(const attention_round& a, const void* line) {
  return reinterpret_cast<const typename E::value*>(head_of(a, line));
}

/// Asks memory for the 64 bytes at `at`, which are read soon, or a little later. Always inline: g++ 12 takes a function
/// that only prefetches for one that does nothing, and drops the call.
[[gnu::always_inline]] inline void fetch(const void* at) { __builtin_prefetch(at); }
[[gnu::always_inline]] inline void fetch_later(const void* at) { __builtin_prefetch(at, 0, 2); }

/// Asks memory for V of keys [from, to) of block `b` whose K is read now: bytes [at, at + 64) of the head. Not of long
/// heads: the processor foresees those better alone. Few at once: memory takes no more.
template <class E>
[[gnu::always_inline]] inline void fetch_values(const attention_round& a, int b, int from, int to, std::int64_t at) {
  constexpr int most_bytes = 256;
  if (a.head_dim * static_cast<int>(sizeof(typename E::value)) > most_bytes) return;
  const int end = to < a.end[b] ? to : a.end[b];
  for (int j = from > a.begin[b] ? from : a.begin[b]; j < end; ++j) fetch(head_of(a, a.v[b * block_lines + j]) + at);
}

/// The lines of block `b`, where there is none a copy of another's address: what comes of it nobody sees.
template <class E>
inline void lines_of(const attention_round& a, int b, const typename E::value** lines) {
  const void* const* const k = a.k + b * block_lines;
  for (int j = 0; j < block_lines; ++j) {
    const int from = j >= a.begin[b] && j < a.end[b] ? j : a.begin[b];
    lines[j] = values_of<E>(a, k[from]);
  }
}

/// `count` values of each line from d on, of which `left` exist, zeros behind them.
template <class T, int Count>
inline void pad_lines(const T* const* lines, int d, int left, T (*padded)[Count], const T** out) {
  for (int j = 0; j < block_lines; ++j) {
    for (int i = 0; i < Count; ++i) padded[j][i] = i < left ? lines[j][d + i] : T{};
    out[j] = padded[j];
  }
}

/// Keys of two bytes: [d][32] as they are stored.
template <class E>
inline void spread_words(const attention_round& a, int b, typename E::value* out) {
  const typename E::value* lines[block_lines];
  lines_of<E>(a, b, lines);
  int d = 0;
  for (; d + 8 <= a.head_dim; d += 8) {
    fetch_values<E>(a, b, d % 32, d % 32 + 8, d / 32 * 64);
    transpose_words(lines, d, out + d * block_lines);
  }
  if (d == a.head_dim) return;
  typename E::value padded[block_lines][8];
  const typename E::value* ends[block_lines];
  pad_lines(lines, d, a.head_dim - d, padded, ends);
  transpose_words(ends, 0, out + d * block_lines);
}

/// Keys of one byte or four: [d][32], widened.
template <class E>
inline void spread_wide(const attention_round& a, int b, float* out) {
  using value = typename E::value;
  const value* lines[block_lines];
  lines_of<E>(a, b, lines);
  for (int d = 0; d < a.head_dim; d += 16) {
    constexpr int bytes = sizeof(value);
    if (d * bytes % 64 == 0) fetch_values<E>(a, b, 0, block_lines, d * bytes);
    value padded[block_lines][16];
    const value* here[block_lines];
    if (a.head_dim - d < 16) {
      pad_lines(lines, d, a.head_dim - d, padded, here);
    } else {
      for (int j = 0; j < block_lines; ++j) here[j] = lines[j] + d;
    }
    for (int j = 0; j < block_lines; j += 16) E::transpose_lines(here + j, out + d * block_lines + j);
  }
}

/// out[g * step + j] = scale g of key j of block `b`, zeros where there is none.
inline void gather_scales(const attention_round& a, int b, const void* const* lines, float* out, int step) {
  for (int g = 0; g < a.groups; ++g) {
    alignas(64) std::uint16_t halves[block_lines] = {};
    for (int j = a.begin[b]; j < a.end[b]; ++j) {
      const auto at = a.scales_at + g * std::int64_t{sizeof(std::uint16_t)};
      __builtin_memcpy(halves + j, head_of(a, lines[b * block_lines + j]) + at, sizeof halves[j]);
    }
    store(out + step * g, load_half(halves));
    store(out + step * g + 16, load_half(halves + 16));
  }
}

/// Scores of M vectors over dimensions [d, end); key(d, half) is K of sixteen keys.
template <int M, class F>
inline void multiply_keys(const attention_round& a, F key, int first, int d, int end, vf (*s)[2]) {
  for (int m = 0; m < M; ++m) s[m][0] = s[m][1] = broadcast(0.0F);
  for (; d < end; ++d) {
    const vf k0 = key(d, 0), k1 = key(d, 1);
    const float* const q = a.q + d * a.vectors + first;
    for (int m = 0; m < M; ++m) {
      const vf x = broadcast(q[m]);
      s[m][0] = fma(x, k0, s[m][0]);
      s[m][1] = fma(x, k1, s[m][1]);
    }
  }
}

template <int M, bool Scaled, class F>
inline void scores(const attention_round& a, int b, F key, int first) {
  float* const w = a.weights + first * round_lines + b * block_lines;
  vf s[M][2];
  if constexpr (!Scaled) {
    multiply_keys<M>(a, key, first, 0, a.head_dim, s);
    for (int m = 0; m < M; ++m) {
      store(w + m * round_lines, s[m][0]);
      store(w + m * round_lines + 16, s[m][1]);
    }
  } else {
    for (int g = 0; g < a.groups; ++g) {
      const int d = g * scale_dims, end = g + 1 < a.groups ? d + scale_dims : a.head_dim;
      multiply_keys<M>(a, key, first, d, end, s);
      for (int half = 0; half < 2; ++half) {
        const vf scale = load(a.k_scales + block_lines * g + 16 * half);
        for (int m = 0; m < M; ++m) {
          float* const to = w + m * round_lines + 16 * half;
          store(to, g == 0 ? mul(s[m][half], scale) : fma(s[m][half], scale, load(to)));
        }
      }
    }
  }
}

template <bool Scaled, class F>
inline void all_scores(const attention_round& a, int b, F key) {
  int i = 0;
  for (; i + attention_rows <= a.vectors; i += attention_rows) scores<attention_rows, Scaled>(a, b, key, i);
  if constexpr (attention_rows == 8) {
    if (i + 4 <= a.vectors) {
      scores<4, Scaled>(a, b, key, i);
      i += 4;
    }
    if (i + 3 == a.vectors) return scores<3, Scaled>(a, b, key, i);
    if (i + 2 == a.vectors) return scores<2, Scaled>(a, b, key, i);
  }
  if (i < a.vectors) scores<1, Scaled>(a, b, key, i);
}

/// weights[v][b * 32 + j] = score of vector v with key j of block `b`.
template <class E>
inline void score_block(const attention_round& a, int b) {
  const auto wide = [&a](int d, int half) { return load(a.k_scratch + d * block_lines + 16 * half); };
  if constexpr (sizeof(typename E::value) == 2) {
    // A few vectors widen what they read; for more it is done once.
    constexpr int few = 8;
    spread_words<E>(a, b, a.k_words);
    if (a.vectors <= few) {
      const std::uint16_t* const words = a.k_words;
      all_scores<E::scaled>(a, b, [words](int d, int half) { return E::widen(words + d * block_lines + 16 * half); });
    } else {
      const int values = a.head_dim * block_lines;
      for (int i = 0; i < values; i += 16) store(a.k_scratch + i, E::widen(a.k_words + i));
      all_scores<E::scaled>(a, b, wide);
    }
  } else {
    spread_wide<E>(a, b, a.k_scratch);
    if constexpr (E::scaled) gather_scales(a, b, a.k, a.k_scales, block_lines);
    all_scores<E::scaled>(a, b, wide);
  }
}

}  // namespace
}  // namespace kvern::gpu::cpu
