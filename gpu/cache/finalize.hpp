#pragma once

#include <cstdint>
#include <span>

#include "gpu/cache/page_memory.hpp"
#include "gpu/cache/page_tables.hpp"
#include "gpu/cache/staging.hpp"

namespace kvern::gpu {

/// A part of a flush. Parts without a common row, layer or shard may be committed by different threads.
struct line_moves {
  std::span<const std::int32_t> rows;   ///< of the step
  std::span<const std::int64_t> lines;  ///< [row of the step][table] the line it goes to; see step_check
  std::int32_t first_layer = 0;         ///< layers of the model, [first_layer, last_layer)
  std::int32_t last_layer = 0;
  std::int32_t shard = 0;
};

/// Copies staged lines into pages. Staging and pages have the same shards; lines and tables are in range.
void commit_lines(const staging& staged, const page_tables& tables, const line_moves& moves, const page_memory& pages);

}  // namespace kvern::gpu
