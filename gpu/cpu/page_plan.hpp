#pragma once

#include <cstdint>

#include "base/error.hpp"
#include "gpu/cache/cache_shape.hpp"

namespace kvern::gpu::cpu {

/// Number of pages for `kv_memory` bytes; 0 stands for a quarter of `free_memory`, and at most what 8 contexts need.
/// Errors: `kv_memory_too_small` when one context of `context` positions does not fit; says what would.
result<std::int32_t> plan_pages(const cache_shape& shape, std::int32_t context, std::uint64_t kv_memory,
                                std::uint64_t free_memory);

}  // namespace kvern::gpu::cpu
