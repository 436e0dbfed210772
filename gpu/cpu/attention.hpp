#pragma once

#include <cstdint>
#include <span>

#include "gpu/backend.hpp"
#include "gpu/cpu/matrix.hpp"
#include "gpu/cpu/thread_team.hpp"

namespace kvern::gpu::cpu {

enum class kv_type { f32, f16 };

/// Where a K or V line of one layer lies: element (line, kv_head, d) at
/// `base + line * line_stride + kv_head * head_dim + d`, in elements of the kv_type.
struct line_array {
  const void* base = nullptr;
  std::int64_t line_stride = 0;
};

/// Attention of all rows of a step in one layer.
struct attention_args {
  int heads = 0;
  int kv_heads = 0;  ///< query head h reads KV head h / (heads / kv_heads)
  int head_dim = 0;
  float scale = 1;  ///< of q.k
  kv_type type = kv_type::f32;
  const float* q = nullptr;  ///< [row][head][head_dim], after RoPE
  float* out = nullptr;      ///< [row][head][head_dim]

  /// Pages of this layer: line `page * page_lines + offset`.
  line_array page_k, page_v;
  /// Staged lines of this layer: line = row number in the step.
  line_array staged_k, staged_v;
  /// The step; rows of a sequence are contiguous. The keys of a row at position p of its sequence: positions
  /// 0 .. committed - 1 from pages, committed .. p from the staged lines of its own step rows.
  const step* what = nullptr;
};

/// out = softmax(scale * q.K) V for every row and head. Keys are walked in blocks of page_lines absolute positions with
/// a running maximum, staged and paged lines alike, so the result depends on the prefix alone, to the bit.
void attend(const attention_args& args, isa i, thread_team& team);

}  // namespace kvern::gpu::cpu
