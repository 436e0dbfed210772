#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gpu/backend.hpp"
#include "gpu/cache/cache_options.hpp"

namespace kvern::gpu {

/// Blocks before this one were computed as if nothing were ever forgotten.
constexpr std::int32_t plain_blocks(const rotation& r) {
  return r.ring == 0 ? blocks_for(INT32_MAX - page_lines) : r.keep + r.ring;
}

/// Calls `visit(first, end)` for the one or two runs of blocks that the row at `position` sees in a table of this
/// window, its own block included only where it has lines before the row.
template <class F>
void for_visible_blocks(const rotation& r, std::int32_t window, std::int32_t position, F&& visit) {
  const visible_keys keys = visible(r, window, position);
  if (keys.kept_begin < keys.kept_end) visit(keys.kept_begin / page_lines, keys.kept_end / page_lines);
  if (keys.first < position) visit(keys.first / page_lines, blocks_for(position));
}

/// How sequences are laid over the pages of a backend: pages one by one, or dense slots of one context each.
class cache_geometry {
 public:
  cache_geometry(const backend_info& info, cache_layout layout)
      : layout_(layout), windows_(info.windows), pages_(info.pages), slot_blocks_(blocks_for(info.context)) {}

  cache_layout layout() const { return layout_; }
  bool dense() const { return layout_ != cache_layout::paged; }
  std::int32_t tables() const { return static_cast<std::int32_t>(windows_.size()); }
  std::int32_t window(std::int32_t table) const { return windows_[static_cast<std::size_t>(table)]; }
  std::int32_t pages() const { return pages_; }

  std::int32_t frame_pages() const { return dense() ? tables() * slot_blocks_ : 1; }
  std::int32_t frames() const { return pages_ / frame_pages(); }
  std::int32_t slot_blocks() const { return slot_blocks_; }

  /// Frames that a sequence takes at once, and the lines they give it (a slot has room for any number: it wraps).
  std::int32_t step_frames() const { return dense() ? 1 : tables(); }
  std::int32_t step_lines() const { return dense() ? 1 << 30 : page_lines; }

  /// Dense layouts: where in its slot a block lies. Blocks beyond the slot take the places after the kept ones again.
  std::int32_t place(const rotation& r, std::int32_t block) const {
    return block < slot_blocks_ ? block : r.keep + (block - r.keep) % (slot_blocks_ - r.keep);
  }
  page_id slot_page(std::int32_t slot, std::int32_t table, std::int32_t place) const {
    return (slot * tables() + table) * slot_blocks_ + place;
  }

  /// Rows from `position` on that can be computed in one step without meeting, in a slot that wraps, a line that the
  /// first of them still sees.
  std::int32_t rows_before_wrap(const rotation& r, std::int32_t position) const {
    if (!dense() || r.ring == 0) return INT32_MAX;
    const std::int32_t oldest = std::max(r.keep, position / page_lines - r.ring + 1);
    return (oldest + slot_blocks_ - r.keep) * page_lines - position;
  }

  /// Frames that a sequence must hold at once to compute its line number `lines` with all before it there.
  std::int32_t frames_for(const rotation& r, std::int32_t lines) const {
    if (dense()) return lines > 0 ? 1 : 0;
    std::int32_t sum = 0;
    for (const std::int32_t window : windows_) {
      std::int32_t blocks = blocks_for(lines);
      if (window > 0) blocks = std::min(blocks, blocks_for(window) + 1);
      if (r.ring > 0) blocks = std::min(blocks, r.keep + r.ring);
      sum += blocks;
    }
    return sum;
  }

  /// Lines that a sequence alone in the pool can have, at most `context`.
  std::int32_t longest(std::int32_t context) const {
    std::int32_t lines = context;
    while (lines > 0 && frames_for({}, lines) > frames()) lines = (blocks_for(lines) - 1) * page_lines;
    return lines;
  }

 private:
  cache_layout layout_;
  std::vector<std::int32_t> windows_;
  std::int32_t pages_;
  std::int32_t slot_blocks_;
};

}  // namespace kvern::gpu
