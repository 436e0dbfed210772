#include "gpu/cache/cache_shape.hpp"

#include <fmt/format.h>

#include "gpu/backend.hpp"

namespace kvern::gpu {
namespace {

// Their product, in bytes of f32 pages, stays below 2^58.
constexpr std::int32_t max_layers = 1 << 14;
constexpr std::int32_t max_heads = 1 << 16;
constexpr std::int32_t max_head_dim = 1 << 16;
constexpr std::uint64_t max_part_bytes = std::uint64_t{1} << 24;

}  // namespace

std::int64_t cache_shape::scales() const {
  if (type != line_type::int8) return 0;
  switch (scale) {
    case scale_span::group:
      return kv_heads * ((std::int64_t{head_dim} + scale_group - 1) / scale_group);
    case scale_span::head:
      return kv_heads;
    case scale_span::line:
      break;
  }
  return 1;
}

std::uint64_t cache_shape::page_bytes() const { return line_bytes() * static_cast<std::uint64_t>(page_lines); }

result<void> validate(const cache_shape& shape) {
  const auto check = [](const char* name, std::int32_t value, std::int32_t limit) -> result<void> {
    if (value >= 1 && value <= limit) return {};
    return fail("invalid_cache_shape", fmt::format("A cache needs 1 to {} {}, not {}.", limit, name, value));
  };
  if (auto ok = check("layers", shape.layers, max_layers); !ok) return ok;
  if (auto ok = check("KV heads", shape.kv_heads, max_heads); !ok) return ok;
  if (auto ok = check("elements in a head", shape.head_dim, max_head_dim); !ok) return ok;
  if (shape.part_bytes() > max_part_bytes)
    return fail("invalid_cache_shape", fmt::format("The keys of one token in one layer would take {} bytes; at most {} "
                                                   "are supported.",
                                                   shape.part_bytes(), max_part_bytes));
  return {};
}

cache_shape shard_shape(const cache_shape& shape, std::int32_t shards, std::int32_t shard) {
  cache_shape part = shape;
  part.kv_heads = shard_heads(shape.kv_heads, shards, shard).count;
  return part;
}

std::uint64_t page_memory_bytes(const cache_shape& shape, std::int32_t shards) {
  std::uint64_t parts = 0;
  for (std::int32_t s = 0; s < shards; ++s) parts += shard_shape(shape, shards, s).part_bytes();
  return parts * line_parts * static_cast<std::uint64_t>(shape.layers) * static_cast<std::uint64_t>(page_lines);
}

}  // namespace kvern::gpu
