#include "gpu/cpu/page_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

#include "gpu/backend.hpp"

namespace kvern::gpu::cpu {
namespace {

constexpr std::uint64_t default_contexts = 8;
constexpr std::uint64_t default_share = 4;

constexpr std::uint64_t block_count(std::uint64_t lines) { return (lines + page_lines - 1) / page_lines; }

/// The largest context, in whole blocks, that needs no more than `pages`; 0 if none.
std::uint64_t context_of(page_demand demand, std::uint64_t pages) {
  std::uint64_t fits = 0, too_many = block_count(static_cast<std::uint64_t>(demand.context));
  while (fits + 1 < too_many) {
    const std::uint64_t middle = fits + (too_many - fits) / 2;
    demand.context = static_cast<std::int32_t>(middle * page_lines);
    (context_pages(demand) <= pages ? fits : too_many) = middle;
  }
  return fits * page_lines;
}

}  // namespace

std::uint64_t context_pages(const page_demand& demand) {
  const std::uint64_t blocks = block_count(static_cast<std::uint64_t>(demand.context));
  std::uint64_t pages = 0;
  for (const std::int32_t window : demand.windows) {
    const auto held = static_cast<std::uint64_t>(window) + static_cast<std::uint64_t>(demand.max_rows);
    const bool whole = window == 0 || demand.layout != cache_layout::paged;
    pages += whole ? blocks : std::min(blocks, block_count(held) + 1);
  }
  return pages;
}

result<std::int32_t> plan_pages(const page_demand& demand, std::uint64_t kv_memory, std::uint64_t free_memory) {
  const std::uint64_t page = demand.page_bytes;
  const std::uint64_t needed = context_pages(demand);
  std::uint64_t pages = kv_memory / page;
  if (kv_memory == 0) pages = std::min(free_memory / default_share / page, default_contexts * needed);
  // Lines are numbered in 64 bits, pages in 31.
  pages = std::min<std::uint64_t>(pages, std::numeric_limits<std::int32_t>::max() - 1);
  if (pages >= needed)
    return static_cast<std::int32_t>(demand.layout == cache_layout::paged ? pages : pages / needed * needed);

  const std::uint64_t fits = context_of(demand, pages);
  const std::string remedy =
      fits > 0 ? fmt::format("set kv_memory to at least {} or the context to at most {}", needed * page, fits)
               : fmt::format("set kv_memory to at least {}", needed * page);
  if (kv_memory == 0)
    return fail("kv_memory_too_small",
                fmt::format("A context of {} positions needs {} bytes of KV memory, and a quarter of the free memory "
                            "is {}: free some memory, or {}.",
                            demand.context, needed * page, free_memory / default_share, remedy));
  return fail("kv_memory_too_small", fmt::format("A context of {} positions needs {} bytes of KV memory, and "
                                                 "kv_memory is {}: {}.",
                                                 demand.context, needed * page, kv_memory, remedy));
}

}  // namespace kvern::gpu::cpu
