#pragma once

#include <cstdint>

#include "base/error.hpp"
#include "gpu/cache/cache_shape.hpp"
#include "gpu/cache/memory_block.hpp"
#include "gpu/cache/page_memory.hpp"

namespace kvern::gpu {

/// K and V lines that one step has computed and no page holds yet: `[row][layer][k|v][kv_head][head_dim]` in the
/// cache's type. Written by the forward pass of one step and read by attention of the same step. Not thread-safe;
/// distinct rows may be written by distinct threads.
class staging {
 public:
  /// Room for `max_rows` rows; nothing is allocated later. Errors: `invalid_cache_shape`, `out_of_memory`.
  static result<staging> create(const cache_shape& shape, std::int32_t max_rows);

  const cache_shape& shape() const { return shape_; }
  std::int32_t max_rows() const { return max_rows_; }

  /// The parts of all rows for one layer: line n is row n of the step.
  line_run lines(std::int32_t layer, line_part part) const;

 private:
  staging(const cache_shape& shape, std::int32_t max_rows, memory_block memory);

  cache_shape shape_;
  std::int32_t max_rows_;
  memory_block memory_;
};

}  // namespace kvern::gpu
