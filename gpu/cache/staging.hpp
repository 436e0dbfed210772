#pragma once

#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "gpu/cache/line_memory.hpp"

namespace kvern::gpu {

struct staging_options {
  bool stacked = true;                    ///< a row's lines of all layers together, or an allocation for each layer
  std::int32_t shards = 1;                ///< parts of the KV heads, each with allocations of its own
  std::vector<std::vector<int>> nodes{};  ///< [shard] the NUMA nodes to prefer; empty: any
};

/// K and V lines that one step has computed and no page holds yet, in the cache's type. Of a shard: stacked
/// `[row][layer][k|v][part]`, else for each layer `[row][k|v][part]`. Written by the forward pass of one step and read
/// by attention of the same step. Not thread-safe; distinct rows may be written by distinct threads.
class staging {
 public:
  /// Room for `max_rows` rows of all layers of the model; nothing is allocated later. `shape`: with the model's layers.
  /// Errors: `invalid_cache_shape`, `invalid_cache_options`, `out_of_memory`.
  static result<staging> create(const cache_shape& shape, std::int32_t max_rows, staging_options options = {});

  const cache_shape& shape() const { return memory_.shape(); }
  std::int32_t max_rows() const { return max_rows_; }
  std::int32_t shards() const { return memory_.shards(); }
  const cache_shape& shard(std::int32_t s) const { return memory_.shard(s); }
  head_range heads(std::int32_t s) const { return memory_.heads(s); }

  /// The parts of all rows for one layer: line n is row n of the step.
  line_run lines(std::int32_t shard, std::int32_t layer, line_part part) const {
    return memory_.lines(shard, layer, part);
  }

 private:
  staging(std::int32_t max_rows, line_memory memory);

  std::int32_t max_rows_;
  line_memory memory_;
};

}  // namespace kvern::gpu
