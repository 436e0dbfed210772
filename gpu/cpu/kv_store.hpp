#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "gpu/backend.hpp"
#include "gpu/cache/cache_options.hpp"
#include "gpu/cache/cache_shape.hpp"
#include "gpu/cache/finalize.hpp"
#include "gpu/cache/page_memory.hpp"
#include "gpu/cache/staging.hpp"
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
/// All that depends on layout, type, stacking and shards is in here. Not thread-safe but for `stage`.
class kv_store {
 public:
  struct settings {
    cache_shape shape;
    cache_options options;
    std::int32_t pages = 0;
    std::int32_t max_rows = 0;
    isa kernels = isa::scalar;
    std::optional<std::uint64_t> noise_seed{};  ///< for tests: see page_memory_options
  };

  /// `team` must outlive this. Errors: `invalid_cache_shape`, `out_of_memory`.
  static result<kv_store> create(const settings& how, thread_team& team);

  const cache_shape& shape() const { return pages_.shape(); }

  /// A step begins: row r will be committed to line `lines[r]` of the page memory (see locate_lines).
  void begin(std::span<const std::int64_t> lines);

  /// Stages K and V of row `row` in `layer`, [kv_head][head_dim] each. Distinct rows may be staged by distinct threads.
  void stage(std::int32_t layer, std::int64_t row, const float* k, const float* v);

  /// out = attention of all rows of `s` in `layer`, whose lines have all been staged. q and out are
  /// [row][head][head_dim].
  void attend(std::int32_t layer, const step& s, const attention_settings& how, const float* q, float* out);

  /// See backend::finalize.
  result<void> finalize(std::span<const std::int32_t> accepted);
  /// Drops what is staged.
  void drop() { lines_.clear(); }

  result<void> clear(std::span<const page_id> pages) { return pages_.clear(pages); }
  result<void> copy(std::span<const page_copy> copies) { return pages_.copy(copies); }
  result<void> read(page_id page, std::int32_t lines, std::span<std::byte> out) const {
    return pages_.read(page, lines, out);
  }
  result<void> write(page_id page, std::int32_t lines, std::span<const std::byte> in) {
    return pages_.write(page, lines, in);
  }

 private:
  kv_store(const settings& how, thread_team& team, page_memory pages, staging staged);

  settings how_;
  thread_team& team_;
  page_memory pages_;
  staging staged_;
  std::vector<std::int64_t> lines_;  ///< of the staged rows, where finalize puts them
  std::vector<line_move> moves_;
};

}  // namespace kvern::gpu::cpu
