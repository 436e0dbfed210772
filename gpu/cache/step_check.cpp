#include "gpu/cache/step_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace kvern::gpu {
namespace {

static_assert(page_lines == 32, "lines of a page are counted in the bits of a word");

std::unexpected<error> invalid(std::string message) { return fail("invalid_step", std::move(message)); }

constexpr std::int64_t block_count(std::int64_t lines) { return (lines + page_lines - 1) / page_lines; }

/// Bits [begin, end) of a word; 0 <= begin < end <= 32.
constexpr std::uint32_t bits(std::int32_t begin, std::int32_t end) {
  return ~std::uint32_t{0} >> (32 - (end - begin)) << begin;
}

}  // namespace

step_check::step_check(step_limits limits)
    : limits_(std::move(limits)), taken_(static_cast<std::size_t>(std::max(0, limits_.pages))) {}

std::int64_t step_check::blocks_of(const step_sequence& sequence) const {
  return static_cast<std::int64_t>(sequence.pages.size() / limits_.windows.size());
}

page_id step_check::page(const step_sequence& sequence, std::size_t table, std::int64_t block) const {
  return sequence.pages[static_cast<std::size_t>(static_cast<std::int64_t>(table) * blocks_of(sequence) + block)];
}

/// Calls `visit(block, begin, end)` for the committed lines [begin, end) of a block that the sequence's rows see in
/// `table`: those that its next row sees, as later rows see no other ones.
template <class F>
void step_check::for_seen(const step_sequence& sequence, std::size_t table, F&& visit) const {
  const visible_keys keys = visible(sequence.rotate, limits_.windows[table], sequence.committed);
  const auto range = [&](std::int32_t begin, std::int32_t end) {
    while (begin < end) {
      const std::int32_t offset = begin % page_lines;
      const std::int32_t count = std::min(end - begin, page_lines - offset);
      visit(begin / page_lines, offset, offset + count);
      begin += count;
    }
  };
  range(keys.kept_begin, keys.kept_end);
  range(keys.first, sequence.committed);
}

result<void> step_check::check_sequence(const step_sequence& sequence, std::size_t number) const {
  const rotation& rotate = sequence.rotate;
  if (rotate.keep < 0 || rotate.ring < 0 || std::int64_t{rotate.keep} + rotate.ring > block_count(limits_.context))
    return invalid(fmt::format("Sequence {} rotates {} blocks behind {}; a context has {}.", number, rotate.ring,
                               rotate.keep, block_count(limits_.context)));
  const std::int32_t limit = rotate.ring > 0 ? limits_.max_position : limits_.context;
  if (sequence.committed < 0 || sequence.committed > limit)
    return invalid(
        fmt::format("Sequence {} has {} committed positions; it can have {}.", number, sequence.committed, limit));
  if (sequence.pages.size() % limits_.windows.size() != 0)
    return invalid(fmt::format("Sequence {} has {} pages, which do not make {} tables.", number, sequence.pages.size(),
                               limits_.windows.size()));
  return {};
}

result<void> step_check::check_rows(const step& s) {
  if (s.rows.empty() || s.rows.size() > static_cast<std::size_t>(limits_.max_rows))
    return invalid(fmt::format("A step has 1 to {} rows, not {}.", limits_.max_rows, s.rows.size()));
  rows_of_.assign(s.sequences.size(), 0);
  for (std::size_t r = 0; r < s.rows.size(); ++r) {
    const step_row& row = s.rows[r];
    if (row.token < 0 || row.token >= limits_.vocab)
      return invalid(fmt::format("Row {} has a token out of the vocabulary of {}.", r, limits_.vocab));
    if (row.sequence < 0 || static_cast<std::size_t>(row.sequence) >= s.sequences.size())
      return invalid(fmt::format("Row {} names sequence {} of {}.", r, row.sequence, s.sequences.size()));
    const step_sequence& sequence = s.sequences[static_cast<std::size_t>(row.sequence)];
    std::int32_t& before = rows_of_[static_cast<std::size_t>(row.sequence)];
    if (before > 0 && s.rows[r - 1].sequence != row.sequence)
      return invalid(fmt::format("The rows of sequence {} do not stand together.", row.sequence));
    const std::int64_t expected = std::int64_t{sequence.committed} + before;
    if (row.position != expected)
      return invalid(fmt::format("Row {} has position {} where {} follows.", r, row.position, expected));
    const std::int32_t limit = sequence.rotate.ring > 0 ? limits_.max_position : limits_.context;
    if (row.position >= limit)
      return invalid(fmt::format("Row {} has position {}; positions are below {}.", r, row.position, limit));
    ++before;
  }
  return {};
}

result<void> step_check::check_pages(const step_sequence& sequence, std::size_t number) const {
  const std::int64_t end = std::int64_t{sequence.committed} + rows_of_[number];
  if (blocks_of(sequence) < block_count(end))
    return invalid(fmt::format("Sequence {} has tables of {} blocks where {} are needed.", number, blocks_of(sequence),
                               block_count(end)));
  for (std::size_t table = 0; table < limits_.windows.size(); ++table) {
    std::int64_t bad = -1;
    const auto look = [&](std::int64_t block) {
      const page_id id = page(sequence, table, block);
      if (id < 0 || id >= limits_.pages) bad = block;
    };
    for_seen(sequence, table, [&](std::int32_t block, std::int32_t, std::int32_t) { look(block); });
    if (end > sequence.committed)
      for (std::int64_t block = sequence.committed / page_lines; block < block_count(end); ++block) look(block);
    if (bad >= 0)
      return invalid(fmt::format("Sequence {} needs block {} of table {}, which names page {} of {}.", number, bad,
                                 table, page(sequence, table, bad), limits_.pages));
  }
  return {};
}

result<void> step_check::take_lines(const step& s, std::vector<std::int64_t>& lines) {
  const std::size_t tables = limits_.windows.size();
  for (const step_sequence& sequence : s.sequences)
    for (std::size_t table = 0; table < tables; ++table)
      for_seen(sequence, table, [&](std::int32_t block, std::int32_t begin, std::int32_t end) {
        taken_[static_cast<std::size_t>(page(sequence, table, block))] |= bits(begin, end);
      });
  for (const step_row& row : s.rows) {
    const step_sequence& sequence = s.sequences[static_cast<std::size_t>(row.sequence)];
    const std::int32_t offset = row.position % page_lines;
    for (std::size_t table = 0; table < tables; ++table) {
      const page_id to = page(sequence, table, row.position / page_lines);
      std::uint32_t& taken = taken_[static_cast<std::size_t>(to)];
      if ((taken & bits(offset, offset + 1)) != 0)
        return invalid(
            fmt::format("Position {} of sequence {} would overwrite line {} of page {}, which holds another "
                        "position that this step sees or writes.",
                        row.position, row.sequence, offset, to));
      taken |= bits(offset, offset + 1);
      lines.push_back(std::int64_t{to} * page_lines + offset);
    }
  }
  return {};
}

void step_check::release_lines(const step& s) {
  for (std::size_t table = 0; table < limits_.windows.size(); ++table) {
    for (const step_sequence& sequence : s.sequences)
      for_seen(sequence, table, [&](std::int32_t block, std::int32_t, std::int32_t) {
        taken_[static_cast<std::size_t>(page(sequence, table, block))] = 0;
      });
    for (const step_row& row : s.rows) {
      const step_sequence& sequence = s.sequences[static_cast<std::size_t>(row.sequence)];
      taken_[static_cast<std::size_t>(page(sequence, table, row.position / page_lines))] = 0;
    }
  }
}

result<void> step_check::check(const step& s, std::vector<std::int64_t>& lines) {
  lines.clear();
  lines.reserve(s.rows.size() * limits_.windows.size());
  for (std::size_t n = 0; n < s.sequences.size(); ++n)
    if (auto ok = check_sequence(s.sequences[n], n); !ok) return ok;
  if (auto ok = check_rows(s); !ok) return ok;
  for (std::size_t n = 0; n < s.sequences.size(); ++n)
    if (auto ok = check_pages(s.sequences[n], n); !ok) return ok;
  auto taken = take_lines(s, lines);
  release_lines(s);
  return taken;
}

}  // namespace kvern::gpu
