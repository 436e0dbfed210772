#include "gpu/cpu/page_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "gpu/backend.hpp"

namespace kvern::gpu::cpu {
namespace {

constexpr std::uint64_t default_contexts = 8;
constexpr std::uint64_t default_share = 4;

}  // namespace

result<std::int32_t> plan_pages(const cache_shape& shape, std::int32_t context, std::uint64_t kv_memory,
                                std::uint64_t free_memory) {
  const std::uint64_t page = shape.page_bytes();
  const std::uint64_t needed = (static_cast<std::uint64_t>(context) + page_lines - 1) / page_lines;
  std::uint64_t pages = kv_memory / page;
  if (kv_memory == 0) pages = std::min(free_memory / default_share / page, default_contexts * needed);
  // Lines are numbered in 64 bits, pages in 31.
  pages = std::min<std::uint64_t>(pages, std::numeric_limits<std::int32_t>::max() - 1);
  if (pages >= needed) return static_cast<std::int32_t>(pages);

  const std::uint64_t fits = pages * page_lines;
  const std::string remedy =
      fits > 0 ? fmt::format("set kv_memory to at least {} or the context to at most {}", needed * page, fits)
               : fmt::format("set kv_memory to at least {}", needed * page);
  if (kv_memory == 0)
    return fail("kv_memory_too_small",
                fmt::format("A context of {} positions needs {} bytes of KV memory, and a quarter of the free memory "
                            "is {}: free some memory, or {}.",
                            context, needed * page, free_memory / default_share, remedy));
  return fail("kv_memory_too_small", fmt::format("A context of {} positions needs {} bytes of KV memory, and "
                                                 "kv_memory is {}: {}.",
                                                 context, needed * page, kv_memory, remedy));
}

}  // namespace kvern::gpu::cpu
