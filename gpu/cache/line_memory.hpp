#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "gpu/cache/cache_shape.hpp"
#include "gpu/cache/memory_block.hpp"

namespace kvern::gpu {

/// Parts (K or V of one layer and shard) at equal distances: line n begins at `base + n * stride`.
struct line_run {
  std::byte* base = nullptr;
  std::int64_t stride = 0;  ///< bytes

  std::byte* line(std::int64_t n) const { return base + n * stride; }
};

/// Whether a part's lines stand together, `[layer][k|v][line]`, or a line's parts, `[line][layer][k|v]`.
enum class line_order { by_part, by_line };

struct line_memory_options {
  line_order order = line_order::by_part;
  memory_use use = memory_use::dense;
  bool stacked = true;                        ///< one allocation for all layers of a shard, or one for each
  std::int32_t shards = 1;                    ///< parts of the KV heads, each with allocations of its own
  std::vector<std::vector<int>> nodes{};      ///< [shard] the NUMA nodes to prefer; empty: any
  std::optional<std::uint64_t> noise_seed{};  ///< for tests: random bits of this seed at first, NaNs among them
  const char* purpose = "the KV cache";       ///< named by out_of_memory
};

/// A number of lines of one shape, wherever they lie. Not thread-safe; distinct lines may be written by distinct
/// threads. Movable, owned; the runs stay where they are when it is moved.
class line_memory {
 public:
  /// Errors: `invalid_cache_shape`, `invalid_cache_options` (shards), `out_of_memory`.
  static result<line_memory> create(const cache_shape& shape, std::int64_t lines, line_memory_options options);

  const cache_shape& shape() const { return shape_; }
  std::int32_t shards() const { return static_cast<std::int32_t>(shards_.size()); }
  const cache_shape& shard(std::int32_t s) const { return shards_[static_cast<std::size_t>(s)].shape; }
  head_range heads(std::int32_t s) const { return shards_[static_cast<std::size_t>(s)].heads; }
  std::uint64_t bytes() const;

  line_run lines(std::int32_t shard, std::int32_t layer, line_part part) const {
    return runs_[(static_cast<std::size_t>(shard) * static_cast<std::size_t>(shape_.layers) +
                  static_cast<std::size_t>(layer)) *
                     line_parts +
                 static_cast<std::size_t>(part)];
  }

 private:
  struct shard_of_heads {
    cache_shape shape;
    head_range heads;
  };

  line_memory() = default;
  result<void> add_shard(std::int32_t shard, std::int64_t lines, const line_memory_options& options);

  cache_shape shape_;
  std::vector<shard_of_heads> shards_;
  std::vector<memory_block> memory_;  ///< [shard][layer], or [shard] when stacked
  std::vector<line_run> runs_;        ///< [shard][layer][k|v]
};

}  // namespace kvern::gpu
