#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/token.hpp"

namespace kvern::gpu {

using page_id = std::int32_t;

/// Lines in a page.
inline constexpr std::int32_t page_lines = 32;

/// One token to compute. Rows of one sequence stand together in a step, at ascending positions that begin at the
/// sequence's `committed`.
struct step_row {
  token_id token = 0;
  std::int32_t position = 0;  ///< 0-based in its sequence
  std::int32_t sequence = 0;  ///< index into step::sequences
  bool logits = false;        ///< whether this row's logits are wanted
};

/// What a step knows of a sequence: `pages[p / page_lines]` holds position p. Positions below `committed` are in pages;
/// the pages of this step's own positions are there too, for finalize.
struct step_sequence {
  std::vector<page_id> pages;
  std::int32_t committed = 0;
};

/// A flat batch: decode rows and prompt chunks alike.
struct step {
  std::vector<step_row> rows;
  std::vector<step_sequence> sequences;
};

/// What an engine must know of the model and the memory behind a backend.
struct backend_info {
  std::int32_t vocab = 0;          ///< logits of a row
  std::int32_t context = 0;        ///< positions a sequence may have
  std::int32_t pages = 0;          ///< page ids are 0 .. pages - 1
  std::int32_t max_rows = 0;       ///< rows a step may have
  std::uint64_t page_bytes = 0;    ///< of one page, all layers
  std::uint64_t weight_bytes = 0;  ///< resident weights, as packed
  std::string kernels;             ///< instruction set in use, for status
};

/// Computes steps and owns the memory of pages and staged lines. Not thread-safe: one owner (the GPU worker).
///
/// The logits of a row depend on its sequence's tokens up to that row alone: not on the other rows, on where chunks
/// were cut, or on the number of threads; equal to the bit.
class backend {
 public:
  virtual ~backend() = default;

  virtual const backend_info& info() const = 0;

  /// Computes `s`; its new lines are staged, no page is written. Errors: `invalid_step` when a row, page or position is
  /// out of range; then nothing is staged.
  virtual result<void> forward(const step& s) = 0;

  /// Logits [vocab] of row `row` of the last forward, which asked for them. Valid until the next forward.
  virtual std::span<const float> logits(std::size_t row) const = 0;

  /// Commits the staged lines of `accepted` (row numbers of the last forward, ascending) into their pages, all layers
  /// in one flush, and drops the others. Errors: `invalid_step` when these are not ascending rows of the last forward;
  /// then nothing is written. Staging is empty after success.
  virtual result<void> finalize(std::span<const std::int32_t> accepted) = 0;

  /// Overwrites pages with zeros, before another cache domain gets them.
  virtual result<void> clear(std::span<const page_id> pages) = 0;
};

}  // namespace kvern::gpu
