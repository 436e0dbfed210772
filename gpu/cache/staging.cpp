#include "gpu/cache/staging.hpp"

#include <utility>

namespace kvern::gpu {

staging::staging(std::int32_t max_rows, line_memory memory) : max_rows_(max_rows), memory_(std::move(memory)) {}

result<staging> staging::create(const cache_shape& shape, std::int32_t max_rows, staging_options options) {
  auto memory = line_memory::create(shape, max_rows,
                                    {.order = line_order::by_line,
                                     .use = memory_use::dense,
                                     .stacked = options.stacked,
                                     .shards = options.shards,
                                     .nodes = std::move(options.nodes),
                                     .purpose = "staged KV lines"});
  if (!memory) return std::unexpected(std::move(memory.error()));
  return staging(max_rows, std::move(*memory));
}

}  // namespace kvern::gpu
