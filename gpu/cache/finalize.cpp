#include "gpu/cache/finalize.hpp"

#include <cstddef>
#include <cstring>

namespace kvern::gpu {

void commit_lines(const staging& staged, const page_tables& tables, const line_moves& moves, const page_memory& pages) {
  const std::size_t bytes = pages.shard(moves.shard).part_bytes();
  for (std::int32_t layer = moves.first_layer; layer < moves.last_layer; ++layer) {
    const layer_place place = tables.layers[static_cast<std::size_t>(layer)];
    for (const line_part part : {line_part::k, line_part::v}) {
      const line_run from = staged.lines(moves.shard, layer, part);
      const line_run to = pages.lines(moves.shard, place.layer, part);
      for (const std::int32_t row : moves.rows) {
        const std::int64_t entry = std::int64_t{row} * tables.count() + place.table;
        std::memcpy(to.line(moves.lines[static_cast<std::size_t>(entry)]), from.line(row), bytes);
      }
    }
  }
}

}  // namespace kvern::gpu
