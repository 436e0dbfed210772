#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "gpu/backend.hpp"
#include "gpu/cache/cache_options.hpp"
#include "gpu/cpu/matrix.hpp"
#include "gpu/cpu/thread_team.hpp"

namespace kvern::gpu::cpu {

/// K or V lines of one layer and shard: line n begins at `base + n * stride` bytes and is `[kv_head][head_dim]`.
struct line_view {
  const std::byte* base = nullptr;
  std::int64_t stride = 0;
};

/// The lines of KV heads [first_kv_head, first_kv_head + kv_heads) of one layer.
struct shard_lines {
  std::int32_t first_kv_head = 0;
  std::int32_t kv_heads = 0;
  line_view page_k{}, page_v{};      ///< line `page * page_lines + offset`
  line_view staged_k{}, staged_v{};  ///< line = row number in the step
};

/// Attention of all rows of a step in one layer.
struct attention_args {
  int heads = 0;
  int kv_heads = 0;  ///< query head h reads KV head h / (heads / kv_heads)
  int head_dim = 0;
  float scale = 1;                  ///< of q.k
  line_type type = line_type::f32;  ///< f32 or f16
  const float* q = nullptr;         ///< [row][head][head_dim], after RoPE
  float* out = nullptr;             ///< [row][head][head_dim]

  std::span<const shard_lines> shards{};  ///< all KV heads, in order
  std::int32_t table = 0;                 ///< of the pages of a sequence
  std::int32_t tables = 1;
  bool eager = false;  ///< the step's own lines are in pages already
  /// The step; rows of a sequence are contiguous. The keys of a row at position p of its sequence: positions
  /// 0 .. committed - 1 from pages, committed .. p from the staged lines of its own step rows, unless eager.
  const step* what = nullptr;
};

/// out = softmax(scale * q.K) V for every row and head. Keys are walked in blocks of page_lines absolute positions with
/// a running maximum, staged and paged lines alike, so the result depends on the prefix alone, to the bit.
void attend(const attention_args& args, isa i, thread_team& team);

}  // namespace kvern::gpu::cpu
