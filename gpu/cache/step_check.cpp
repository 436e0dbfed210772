#include "gpu/cache/step_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "gpu/cache/finalize.hpp"

namespace kvern::gpu {
namespace {

static_assert(page_lines <= 255, "lines of a page are counted in a byte");

std::unexpected<error> invalid(std::string message) { return fail("invalid_step", std::move(message)); }

/// Calls `visit(page, lines)` for every page of `sequence` that holds committed lines.
template <class F>
void for_committed_pages(const step_sequence& sequence, F&& visit) {
  for (std::int32_t first = 0; first < sequence.committed; first += page_lines)
    visit(static_cast<std::size_t>(sequence.pages[static_cast<std::size_t>(first / page_lines)]),
          static_cast<std::uint8_t>(std::min(page_lines, sequence.committed - first)));
}

}  // namespace

step_check::step_check(const step_limits& limits)
    : limits_(limits), committed_(static_cast<std::size_t>(std::max(0, limits.pages))) {}

result<void> step_check::check_rows(const step& s) {
  if (s.rows.empty() || s.rows.size() > static_cast<std::size_t>(limits_.max_rows))
    return invalid(fmt::format("A step has 1 to {} rows, not {}.", limits_.max_rows, s.rows.size()));
  for (std::size_t n = 0; n < s.sequences.size(); ++n)
    if (s.sequences[n].committed < 0 || s.sequences[n].committed > limits_.context)
      return invalid(fmt::format("Sequence {} has {} committed positions; a context is {}.", n,
                                 s.sequences[n].committed, limits_.context));
  rows_of_.assign(s.sequences.size(), 0);
  for (std::size_t r = 0; r < s.rows.size(); ++r) {
    const step_row& row = s.rows[r];
    if (row.token < 0 || row.token >= limits_.vocab)
      return invalid(fmt::format("Row {} has a token out of the vocabulary of {}.", r, limits_.vocab));
    if (row.sequence < 0 || static_cast<std::size_t>(row.sequence) >= s.sequences.size())
      return invalid(fmt::format("Row {} names sequence {} of {}.", r, row.sequence, s.sequences.size()));
    const auto sequence = static_cast<std::size_t>(row.sequence);
    std::int32_t& before = rows_of_[sequence];
    if (before > 0 && s.rows[r - 1].sequence != row.sequence)
      return invalid(fmt::format("The rows of sequence {} do not stand together.", row.sequence));
    const std::int64_t expected = std::int64_t{s.sequences[sequence].committed} + before;
    if (row.position != expected)
      return invalid(fmt::format("Row {} has position {} where {} follows.", r, row.position, expected));
    if (row.position >= limits_.context)
      return invalid(fmt::format("Row {} has position {}; a context is {}.", r, row.position, limits_.context));
    ++before;
  }
  return {};
}

result<void> step_check::check_pages(const step& s) {
  for (std::size_t n = 0; n < s.sequences.size(); ++n) {
    const step_sequence& sequence = s.sequences[n];
    const auto needed = static_cast<std::size_t>((sequence.committed + rows_of_[n] + page_lines - 1) / page_lines);
    if (sequence.pages.size() < needed)
      return invalid(fmt::format("Sequence {} has {} pages where {} are needed.", n, sequence.pages.size(), needed));
    for (std::size_t i = 0; i < needed; ++i)
      if (sequence.pages[i] < 0 || sequence.pages[i] >= limits_.pages)
        return invalid(fmt::format("Sequence {} names page {}; there are {}.", n, sequence.pages[i], limits_.pages));
  }
  return {};
}

result<void> step_check::check_overwrites(const step& s, const std::vector<std::int64_t>& lines) {
  for (const step_sequence& sequence : s.sequences)
    for_committed_pages(
        sequence, [this](std::size_t page, std::uint8_t held) { committed_[page] = std::max(committed_[page], held); });
  const auto overwrites = [this](std::int64_t line) {
    return line % page_lines < committed_[static_cast<std::size_t>(line / page_lines)];
  };
  const auto bad = std::find_if(lines.begin(), lines.end(), overwrites);
  for (const step_sequence& sequence : s.sequences)
    for_committed_pages(sequence, [this](std::size_t page, std::uint8_t) { committed_[page] = 0; });
  if (bad != lines.end())
    return invalid(fmt::format("Row {} would overwrite line {} of page {}, which is committed.", bad - lines.begin(),
                               *bad % page_lines, *bad / page_lines));
  return {};
}

result<void> step_check::check(const step& s, std::vector<std::int64_t>& lines) {
  if (auto ok = check_rows(s); !ok) return ok;
  if (auto ok = check_pages(s); !ok) return ok;
  if (auto ok = locate_lines(s, limits_.pages, lines); !ok) return invalid(std::move(ok.error().message));
  return check_overwrites(s, lines);
}

}  // namespace kvern::gpu
