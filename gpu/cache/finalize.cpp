#include "gpu/cache/finalize.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace kvern::gpu {

result<void> locate_lines(const step& s, std::int32_t pages, std::vector<std::int64_t>& lines) {
  lines.clear();
  lines.reserve(2 * s.rows.size());
  for (const step_row& row : s.rows) {
    if (row.sequence < 0 || static_cast<std::size_t>(row.sequence) >= s.sequences.size() || row.position < 0)
      return fail("invalid_step", fmt::format("Row {} names sequence {} of {} and position {}.", lines.size(),
                                              row.sequence, s.sequences.size(), row.position));
    const auto& table = s.sequences[static_cast<std::size_t>(row.sequence)].pages;
    const auto index = static_cast<std::size_t>(row.position / page_lines);
    if (index >= table.size())
      return fail("page_out_of_range", fmt::format("Position {} of sequence {} has no page: its table holds {}.",
                                                   row.position, row.sequence, table.size()));
    if (table[index] < 0 || table[index] >= pages)
      return fail("page_out_of_range", fmt::format("Position {} of sequence {} is in page {}; there are {}.",
                                                   row.position, row.sequence, table[index], pages));
    lines.push_back(static_cast<std::int64_t>(table[index]) * page_lines + row.position % page_lines);
  }
  // The second half of the vector is scratch, so that a step allocates nothing once the vector has grown.
  const auto rows = static_cast<std::ptrdiff_t>(lines.size());
  lines.resize(2 * lines.size());
  std::copy(lines.begin(), lines.begin() + rows, lines.begin() + rows);
  std::sort(lines.begin() + rows, lines.end());
  const auto twice = std::adjacent_find(lines.begin() + rows, lines.end());
  if (twice != lines.end())
    return fail("page_conflict", fmt::format("Two rows of one step would be written to line {} of page {}.",
                                             *twice % page_lines, *twice / page_lines));
  lines.resize(static_cast<std::size_t>(rows));
  return {};
}

void commit_lines(const staging& staged, std::span<const line_move> moves, std::int32_t first_layer,
                  std::int32_t last_layer, const page_memory& pages) {
  const std::size_t bytes = staged.shape().part_bytes();
  for (std::int32_t layer = first_layer; layer < last_layer; ++layer)
    for (const line_part part : {line_part::k, line_part::v}) {
      const line_run from = staged.lines(layer, part);
      const line_run to = pages.lines(layer, part);
      for (const line_move& move : moves) std::memcpy(to.line(move.line), from.line(move.row), bytes);
    }
}

void commit_lines(const staging& staged, std::span<const line_move> moves, const page_memory& pages) {
  commit_lines(staged, moves, 0, staged.shape().layers, pages);
}

}  // namespace kvern::gpu
