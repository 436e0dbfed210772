#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "gpu/backend.hpp"
#include "gpu/cache/cache_options.hpp"
#include "gpu/cpu/matrix.hpp"
#include "gpu/cpu/thread_team.hpp"

namespace kvern::gpu::cpu {

/// Where the K or the V of lines lie: that of line n at `base + n * stride`, in bytes. Values [kv_head][head_dim]
/// first; for int8 then, at shard_lines::scales_offset and need not be aligned, f16 scales: [kv_head][ceil(head_dim /
/// 32)] for scale_span::group, [kv_head] for head, [1] for line.
struct line_view {
  const std::byte* base = nullptr;
  std::int64_t stride = 0;
};

/// The lines of one layer for KV heads [first_kv_head, first_kv_head + kv_heads).
struct shard_lines {
  int first_kv_head = 0;
  int kv_heads = 0;
  line_view page_k, page_v;        ///< line `page * page_lines + offset`
  line_view staged_k, staged_v;    ///< line = row number in the step; not read when eager
  std::int64_t scales_offset = 0;  ///< int8: bytes from a line's values to its scales
};

/// Attention of all rows of a step in one layer.
struct attention_args {
  int heads = 0;
  int kv_heads = 0;  ///< query head h reads KV head h / (heads / kv_heads)
  int head_dim = 0;
  float scale = 1;          ///< of q.k
  float cap = 0;            ///< scores become cap * tanh(score / cap); 0: they stay
  std::int32_t window = 0;  ///< see visible(); 0: none
  line_type type = line_type::f32;
  scale_span span = scale_span::group;  ///< of int8
  const float* q = nullptr;             ///< [row][head][head_dim], after RoPE
  float* out = nullptr;                 ///< [row][head][head_dim]

  /// All KV heads, ascending. With several shards each has threads of its own as long as it has work.
  std::span<const shard_lines> shards;
  /// The step; rows of a sequence are contiguous, at positions committed, committed + 1, ... The keys that a row sees
  /// below `committed` are in pages, the others in the staged lines of its sequence's rows; when eager, all in pages.
  const step* what = nullptr;
  std::int32_t table = 0;   ///< this layer's, of step_sequence::pages
  std::int32_t tables = 1;  ///< in step_sequence::pages
  bool eager = false;
};

/// out = softmax(scale * q.K) V over the keys that each row sees, for every head. Keys are walked in blocks of
/// page_lines absolute positions, four of them a round with a maximum of its own, and rounds are folded in order;
/// staged and paged lines alike, and a block of which a row sees nothing is not touched for it. Work is divided over
/// threads by sequences, heads and rounds: the result depends on the row's tokens, window and rotation alone, to the
/// bit. int8 values enter the sums as integers, to which the scales are applied. Of a line nothing is read that no row
/// sees.
void attend(const attention_args& args, isa i, thread_team& team);

}  // namespace kvern::gpu::cpu
