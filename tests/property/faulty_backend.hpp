#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "tests/property/forwarding_backend.hpp"

namespace kvern::gpu {

/// What goes wrong, once.
enum class fault {
  skipped_copy,           ///< a copy on write is not made: its new page stays the old one, for good
  committed_dropped_row,  ///< a row that was not accepted is committed
  shifted_line,           ///< a line is committed one place too early
  swapped_scales,         ///< two scales of an int8 page change places
  skipped_clear,          ///< a page is not cleared
  swapped_blocks,         ///< two entries of a page table change places, for one step
};
inline constexpr fault all_faults[] = {fault::skipped_copy,   fault::committed_dropped_row, fault::shifted_line,
                                       fault::swapped_scales, fault::skipped_clear,         fault::swapped_blocks};
const char* to_string(fault f);

/// A backend with one fault, at a chosen one of the occasions for it.
class faulty_backend final : public forwarding_backend {
 public:
  /// `occasion`: how many occasions pass before. `*happened` becomes true with the fault; it outlives this.
  faulty_backend(std::unique_ptr<backend> inner, fault what, int occasion, const read_layout& layout, bool* happened);

  result<void> forward(const step& s) override;
  result<void> finalize(std::span<const std::int32_t> accepted) override;
  result<void> clear(std::span<const page_id> pages) override;
  result<void> copy(std::span<const page_copy> copies) override;
  result<void> read(page_id page, std::int32_t lines, std::span<std::byte> out) const override {
    return forwarding_backend::read(real(page), lines, out);
  }
  result<void> write(page_id page, std::int32_t lines, std::span<const std::byte> in) override {
    return forwarding_backend::write(real(page), lines, in);
  }

 private:
  bool now(bool occasion);
  page_id real(page_id page) const;
  bool swap_blocks(step& s) const;
  bool shift_line(page_id page, std::int32_t line);
  bool swap_scales(page_id page, std::int32_t lines);

  fault what_;
  int passes_;
  read_layout layout_;
  bool* happened_;
  step in_flight_;
  std::map<page_id, page_id> instead_;  // the page that a copy was not made from, of the one it was not made to
};

}  // namespace kvern::gpu
