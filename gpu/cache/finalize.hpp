#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "gpu/backend.hpp"
#include "gpu/cache/page_memory.hpp"
#include "gpu/cache/staging.hpp"

namespace kvern::gpu {

/// Where a staged line goes: row of the step -> line of the page memory (`page * page_lines + offset`).
struct line_move {
  std::int32_t row = 0;
  std::int64_t line = 0;
};

/// The line that every row of `s` would be committed to. Reads no sequence or page that `s` does not have.
/// Errors: `invalid_step` (a row names no sequence, a negative position), `page_out_of_range` (a table does not cover a
/// row's position or names a page that is not), `page_conflict` (two rows would be committed to one line). `lines` is
/// then unspecified.
result<void> locate_lines(const step& s, std::int32_t pages, std::vector<std::int64_t>& lines);

/// Copies staged lines into pages, of layers [first, last). The moves must come from `locate_lines`; disjoint moves may
/// be committed by different threads.
void commit_lines(const staging& staged, std::span<const line_move> moves, std::int32_t first_layer,
                  std::int32_t last_layer, const page_memory& pages);

/// The same for all layers: one flush.
void commit_lines(const staging& staged, std::span<const line_move> moves, const page_memory& pages);

}  // namespace kvern::gpu
