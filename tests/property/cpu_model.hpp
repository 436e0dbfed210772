#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "gpu/backend.hpp"
#include "gpu/cpu/cpu_backend.hpp"
#include "tests/property/cold_model.hpp"
#include "tests/property/combinations.hpp"
#include "tests/property/forwarding_backend.hpp"

namespace kvern::gpu {

/// A small model with random weights, read once. `kind`: index into tiny_models.
std::shared_ptr<const gguf_file> tiny_file(int kind);

/// Of every tiny model.
inline constexpr std::int32_t tiny_kv_heads = 2;
inline constexpr std::int32_t tiny_head_dim = 40;

/// A backend for `c` with room for so many whole contexts and some pages more; its pages begin as noise of that seed.
std::unique_ptr<backend> load_tiny(const combination& c, std::int32_t contexts, std::int32_t more_pages,
                                   std::uint64_t noise);

/// What such a backend reads.
read_layout layout_of(const backend_info& info);

/// Computes on plain options (paged, lazy, stacked, one shard, one thread) with the type of `c`.
std::unique_ptr<cold_model> load_cold(const combination& c);

}  // namespace kvern::gpu
