#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "gpu/backend.hpp"
#include "gpu/cache/cache_options.hpp"
#include "gpu/cache/cache_shape.hpp"
#include "gpu/cache/page_memory.hpp"
#include "gpu/cache/page_tables.hpp"
#include "gpu/cache/staging.hpp"
#include "gpu/cpu/attention.hpp"
#include "gpu/cpu/matrix.hpp"
#include "gpu/cpu/thread_team.hpp"

namespace kvern::gpu::cpu {

/// What attention of one layer computes; see attention_args.
struct attention_settings {
  std::int32_t heads = 0;   ///< of q
  float scale = 1;          ///< of q.k
  float cap = 0;            ///< scores become cap * tanh(score / cap); 0: they stay
  std::int32_t window = 0;  ///< keys a row sees, its own included; 0: all
};

/// The KV cache of a model on the CPU: pages and staged lines behind the three things a forward pass does with them.
/// All that depends on layout, type, stacking, update and shards is in here. Not thread-safe but for `stage`.
class kv_store {
 public:
  struct settings {
    page_tables tables;
    std::int32_t kv_heads = 0;
    std::int32_t head_dim = 0;
    cache_options options;
    std::int32_t pages = 0;
    std::int32_t max_rows = 0;
    isa kernels = isa::scalar;
    std::vector<std::vector<int>> nodes{};      ///< [shard] NUMA nodes to prefer; empty: any
    std::optional<std::uint64_t> noise_seed{};  ///< for tests: see page_memory_options
  };

  /// `team` must outlive this. Errors: `invalid_cache_shape`, `invalid_cache_options`, `out_of_memory`.
  static result<kv_store> create(settings how, thread_team& team);

  /// What a page is made of.
  const cache_shape& shape() const { return pages_.shape(); }
  const page_tables& tables() const { return how_.tables; }

  /// A step begins: row r will be committed to line `lines[r * tables + table]` of the page memory (see step_check).
  void begin(std::span<const std::int64_t> lines);

  /// Stages K and V of row `row` in `layer`, [kv_head][head_dim] each. Distinct rows may be staged by distinct threads.
  void stage(std::int32_t layer, std::int64_t row, const float* k, const float* v);

  /// out = attention of all rows of `s` in `layer`, whose lines have all been staged. q and out are
  /// [row][head][head_dim]. Eager updates commit the layer's lines first.
  void attend(std::int32_t layer, const step& s, const attention_settings& how, const float* q, float* out);

  /// See backend::finalize. What eager updates wrote of rows that are not accepted stays in its pages, behind all that
  /// is committed.
  result<void> finalize(std::span<const std::int32_t> accepted);
  /// Drops what is staged.
  void drop() { rows_ = 0; }

  /// How often staged lines were written to pages, whatever their number.
  std::uint64_t flushes() const { return flushes_; }

  result<void> clear(std::span<const page_id> pages) { return pages_.clear(pages); }
  result<void> copy(std::span<const page_copy> copies) { return pages_.copy(copies); }
  result<void> read(page_id page, std::int32_t lines, std::span<std::byte> out) const {
    return pages_.read(page, lines, out);
  }
  result<void> write(page_id page, std::int32_t lines, std::span<const std::byte> in) {
    return pages_.write(page, lines, in);
  }

 private:
  kv_store(settings how, thread_team& team, page_memory pages, staging staged);

  void flush(std::span<const std::int32_t> rows, std::int32_t first_layer, std::int32_t last_layer);
  void attend_shards(std::int32_t layer, const step& s, const attention_settings& how, const float* q, float* out);

  settings how_;
  thread_team& team_;
  page_memory pages_;
  staging staged_;
  std::int64_t rows_ = 0;            ///< staged
  std::vector<std::int64_t> lines_;  ///< [row][table] where finalize puts it
  std::vector<std::int32_t> all_;    ///< row numbers 0 .. max_rows - 1
  std::vector<shard_lines> shards_;  ///< of the layer that attend is at
  std::uint64_t flushes_ = 0;
};

}  // namespace kvern::gpu::cpu
