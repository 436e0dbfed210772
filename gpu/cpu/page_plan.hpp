#pragma once

#include <cstdint>
#include <span>

#include "base/error.hpp"
#include "gpu/cache/cache_options.hpp"

namespace kvern::gpu::cpu {

/// What the pages of a cache are for.
struct page_demand {
  std::uint64_t page_bytes = 0;             ///< in memory
  std::span<const std::int32_t> windows{};  ///< [table], 0 for none
  std::int32_t context = 0;                 ///< lines a sequence may have
  std::int32_t max_rows = 0;                ///< of a step
  cache_layout layout = cache_layout::paged;
};

/// Pages that one sequence of the whole context holds at most. Paged: every block in tables without a window, in others
/// those of the window and of a step's rows; left and ring: a slot, every block of every table.
std::uint64_t context_pages(const page_demand& demand);

/// Number of pages for `kv_memory` bytes; 0 stands for a quarter of `free_memory`, and at most what 8 contexts need.
/// Whole slots with layout left or ring. Errors: `kv_memory_too_small` when one context does not fit; says what would.
result<std::int32_t> plan_pages(const page_demand& demand, std::uint64_t kv_memory, std::uint64_t free_memory);

}  // namespace kvern::gpu::cpu
