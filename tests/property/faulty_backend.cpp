#include "tests/property/faulty_backend.hpp"

#include <algorithm>
#include <utility>

namespace kvern::gpu {

const char* to_string(fault f) {
  constexpr const char* names[] = {"skipped_copy",   "committed_dropped_row", "shifted_line",
                                   "swapped_scales", "skipped_clear",         "swapped_blocks"};
  return names[static_cast<std::size_t>(f)];
}

faulty_backend::faulty_backend(std::unique_ptr<backend> inner, fault what, int occasion, const read_layout& layout,
                               bool* happened)
    : forwarding_backend(std::move(inner)), what_(what), passes_(occasion), layout_(layout), happened_(happened) {}

// Whether the fault happens at what may be an occasion.
bool faulty_backend::now(bool occasion) {
  if (*happened_ || !occasion || passes_-- > 0) return false;
  *happened_ = true;
  return true;
}

page_id faulty_backend::real(page_id page) const {
  const auto it = instead_.find(page);
  return it == instead_.end() ? page : it->second;
}

result<void> faulty_backend::forward(const step& s) {
  in_flight_ = s;
  for (step_sequence& q : in_flight_.sequences)
    for (page_id& p : q.pages) p = real(p);
  if (what_ == fault::swapped_blocks) {
    step swapped = in_flight_;
    if (swap_blocks(swapped) && now(true)) return forwarding_backend::forward(swapped);
  }
  return forwarding_backend::forward(in_flight_);
}

// Two whole blocks that the next row of a sequence sees.
bool faulty_backend::swap_blocks(step& s) const {
  for (step_sequence& q : s.sequences) {
    const std::size_t blocks = q.pages.size() / info().windows.size();
    for (std::size_t t = 0; t < info().windows.size(); ++t) {
      const auto first = static_cast<std::size_t>(
          (visible(q.rotate, info().windows[t], q.committed).first + page_lines - 1) / page_lines);
      if (first + 2 > static_cast<std::size_t>(q.committed / page_lines)) continue;
      std::swap(q.pages[t * blocks + first], q.pages[t * blocks + first + 1]);
      return true;
    }
  }
  return false;
}

result<void> faulty_backend::finalize(std::span<const std::int32_t> accepted) {
  std::vector<std::int32_t> rows(accepted.begin(), accepted.end());
  if (what_ == fault::committed_dropped_row && now(rows.size() < in_flight_.rows.size())) {
    std::int32_t dropped = 0;
    while (std::binary_search(rows.begin(), rows.end(), dropped)) ++dropped;
    rows.insert(std::upper_bound(rows.begin(), rows.end(), dropped), dropped);
  }
  if (auto ok = forwarding_backend::finalize(rows); !ok || accepted.empty()) return ok;
  if (what_ != fault::shifted_line && what_ != fault::swapped_scales) return {};
  const step_row& row = in_flight_.rows[static_cast<std::size_t>(accepted.back())];
  const page_id page = in_flight_.sequences[static_cast<std::size_t>(row.sequence)]
                           .pages[static_cast<std::size_t>(row.position / page_lines)];
  const std::int32_t line = row.position % page_lines;
  const bool possible = what_ == fault::shifted_line ? line > 0 && layout_.value_bytes > 0 : layout_.scale_bytes > 0;
  if (now(possible)) *happened_ = what_ == fault::shifted_line ? shift_line(page, line) : swap_scales(page, line + 1);
  return {};
}

bool faulty_backend::shift_line(page_id page, std::int32_t line) {
  const auto lines = static_cast<std::size_t>(line) + 1;
  std::vector<std::byte> bytes = lines_of(page, line + 1);
  const std::vector<std::byte> before = bytes;
  std::byte* at = bytes.data();
  for (std::size_t part = 0; part < layout_.parts; ++part)
    for (const std::size_t size : {layout_.value_bytes, layout_.scale_bytes}) {
      std::copy_n(at + (lines - 1) * size, size, at + (lines - 2) * size);
      at += lines * size;
    }
  return forwarding_backend::write(page, line + 1, bytes).has_value() && bytes != before;
}

bool faulty_backend::swap_scales(page_id page, std::int32_t line_count) {
  constexpr std::size_t scale = sizeof(std::uint16_t);
  const auto lines = static_cast<std::size_t>(line_count);
  std::vector<std::byte> bytes = lines_of(page, line_count);
  std::byte* const first = bytes.data() + lines * layout_.value_bytes;
  for (std::byte* at = first; at + 2 * scale <= first + lines * layout_.scale_bytes; at += scale) {
    if (std::equal(at, at + scale, at + scale)) continue;
    std::swap_ranges(at, at + scale, at + scale);
    return forwarding_backend::write(page, line_count, bytes).has_value();
  }
  return false;
}

result<void> faulty_backend::clear(std::span<const page_id> pages) {
  std::vector<page_id> cleared;
  for (const page_id p : pages) cleared.push_back(real(p));
  if (what_ == fault::skipped_clear && now(true)) cleared.pop_back();
  return forwarding_backend::clear(cleared);
}

result<void> faulty_backend::copy(std::span<const page_copy> copies) {
  std::vector<page_copy> made;
  for (const page_copy& c : copies) {
    if (what_ == fault::skipped_copy && now(true))
      instead_[c.to] = c.from;
    else
      made.push_back({.from = real(c.from), .to = real(c.to), .lines = c.lines});
  }
  return forwarding_backend::copy(made);
}

}  // namespace kvern::gpu
