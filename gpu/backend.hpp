#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/token.hpp"
#include "gpu/cache/cache_options.hpp"
#include "gpu/cache/page_tables.hpp"

namespace kvern::gpu {

using page_id = std::int32_t;

/// Lines in a page. Positions b * page_lines .. + page_lines - 1 of a sequence are its block b.
inline constexpr std::int32_t page_lines = 32;

/// Blocks that `lines` lines need.
constexpr std::int32_t blocks_for(std::int32_t lines) { return (lines + page_lines - 1) / page_lines; }

/// A block that has no page in a table: fallen out of the window or rotated away.
inline constexpr page_id no_page = -1;

/// One token to compute. Rows of one sequence stand together in a step, at ascending positions that begin at the
/// sequence's `committed`.
struct step_row {
  token_id token = 0;
  std::int32_t position = 0;  ///< 0-based in its sequence
  std::int32_t sequence = 0;  ///< index into step::sequences
  bool logits = false;        ///< whether this row's logits are wanted
};

/// How a sequence that may outgrow its room forgets: the first `keep` blocks stay, after them a row sees the last
/// `ring` blocks, its own included. ring 0: nothing is forgotten.
struct rotation {
  std::int32_t keep = 0;
  std::int32_t ring = 0;

  friend bool operator==(const rotation&, const rotation&) = default;
};

/// The keys that a row sees: positions [kept_begin, kept_end) and [first, its own]; kept_end <= first.
struct visible_keys {
  std::int32_t kept_begin = 0;
  std::int32_t kept_end = 0;
  std::int32_t first = 0;
};

/// Of the row at `position`, in layers whose attention reaches back `window` positions, its own included (0: all).
constexpr visible_keys visible(const rotation& r, std::int32_t window, std::int32_t position) {
  const std::int32_t reach = window > 0 && position >= window ? position - window + 1 : 0;
  const std::int32_t oldest = position / page_lines - r.ring + 1;  // block
  if (r.ring == 0 || oldest <= r.keep) return {0, 0, reach};
  const std::int32_t kept = r.keep * page_lines;
  const std::int32_t first = oldest * page_lines;
  return {reach < kept ? reach : kept, kept, reach > first ? reach : first};
}

/// What a step knows of a sequence. `pages` is [table][block] for the tables of backend_info: the page of table t that
/// holds position p is `page(t, p / page_lines)`; every block that a row of the step sees in that table, and the blocks
/// of the step's own rows, for finalize. Positions below `committed` are in pages.
struct step_sequence {
  std::vector<page_id> pages;
  std::int32_t committed = 0;
  rotation rotate = {};
};

/// A flat batch: decode rows and prompt chunks alike.
struct step {
  std::vector<step_row> rows;
  std::vector<step_sequence> sequences;
};

/// What an engine must know of the model and the memory behind a backend.
struct backend_info {
  std::int32_t vocab = 0;          ///< logits of a row
  std::int32_t context = 0;        ///< lines a sequence may have; positions, unless it rotates
  std::int32_t max_position = 0;   ///< positions are below this, also of a sequence that rotates
  std::int32_t pages = 0;          ///< page ids are 0 .. pages - 1, of all tables together
  std::int32_t max_rows = 0;       ///< rows a step may have
  std::uint64_t page_bytes = 0;    ///< of one page
  std::uint64_t weight_bytes = 0;  ///< resident weights, as packed
  std::string kernels;             ///< instruction set in use, for status

  /// The page tables of a sequence: a block has one page in each. [table]: the window of its layers, 0 for none. A
  /// page holds the lines of `page_layers` layers, so all pages are alike, whatever table they serve.
  std::vector<std::int32_t> windows = {0};
  std::int32_t page_layers = 0;

  /// What a line is made of, for those who take it apart (see backend::read). `layers` is [model layer].
  std::vector<layer_place> layers = {};
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  line_type type = line_type::f16;
  scale_span scale = scale_span::group;  ///< of int8
};

/// The first `lines` lines of page `from`, all its layers, to page `to`.
struct page_copy {
  page_id from = 0;
  page_id to = 0;
  std::int32_t lines = 0;
};

/// Computes steps and owns the memory of pages and staged lines. Not thread-safe: one owner (the GPU worker).
///
/// The logits of a row depend on its sequence's tokens up to that row alone (and on its rotation): not on the other
/// rows, on where chunks were cut, or on the number of threads; equal to the bit.
class backend {
 public:
  virtual ~backend() = default;

  virtual const backend_info& info() const = 0;

  /// Computes `s`; its new lines are staged and, unless updates are eager, no page is written. Errors: `invalid_step`
  /// when a row, page or position is out of range; then nothing is staged.
  virtual result<void> forward(const step& s) = 0;

  /// Logits [vocab] of row `row` of the last forward, which asked for them. Valid until the next forward.
  virtual std::span<const float> logits(std::size_t row) const = 0;

  /// Commits the staged lines of `accepted` (row numbers of the last forward, ascending) into their pages, all layers
  /// in one flush, and drops the others. Errors: `invalid_step` when these are not ascending rows of the last forward;
  /// then nothing is written. Staging is empty after success.
  virtual result<void> finalize(std::span<const std::int32_t> accepted) = 0;

  /// Calls `work(i)` for every i in [0, count), on the threads that compute if the backend has any; returns when all
  /// are done. Calls must not depend on one another, nor throw, nor use the backend but for its logits.
  virtual void for_each(std::int64_t count, const std::function<void(std::int64_t)>& work) {
    for (std::int64_t i = 0; i < count; ++i) work(i);
  }

  /// Overwrites pages with zeros, before another cache domain gets them.
  virtual result<void> clear(std::span<const page_id> pages) = 0;

  /// Copies lines between pages (copy on write). Errors: `page_out_of_range`; then nothing is written.
  virtual result<void> copy(std::span<const page_copy> copies) = 0;

  /// The first `lines` lines of a page, in the order that does not depend on how the cache is laid out: for each of the
  /// page's layers K, then V; each `lines` times [kv_head][head_dim] values and then, for int8, `lines` times the
  /// line's scales. `out` has `lines * page_bytes / page_lines` bytes. Errors: `page_out_of_range`.
  virtual result<void> read(page_id page, std::int32_t lines, std::span<std::byte> out) const = 0;
  /// The reverse. Errors: `page_out_of_range`; then nothing is written.
  virtual result<void> write(page_id page, std::int32_t lines, std::span<const std::byte> in) = 0;
};

}  // namespace kvern::gpu
