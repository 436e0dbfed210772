#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.hpp"
#include "gpu/cache/cache_options.hpp"

namespace kvern::gpu {

constexpr std::size_t element_bytes(line_type type) {
  return type == line_type::f32 ? 4 : type == line_type::int8 ? 1 : 2;
}

/// K before V in every layout.
enum class line_part { k = 0, v = 1 };
inline constexpr int line_parts = 2;

/// Values that one scale covers with scale_span::group; fewer at a head's end.
inline constexpr std::int32_t scale_group = 32;

/// What a line is made of: for each layer a K and a V part. A part is `[kv_head][head_dim]` values and then, of int8
/// and at `scales_offset()`, f16 scales: `[kv_head][group of 32 values]`, `[kv_head]` or one, as `scale` says; padded
/// to a multiple of 4 bytes. The one place that knows how many bytes a part takes.
struct cache_shape {
  std::int32_t layers = 0;
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  line_type type = line_type::f16;
  scale_span scale = scale_span::group;  ///< of int8

  /// Values of one part.
  std::int64_t part_elements() const { return static_cast<std::int64_t>(kv_heads) * head_dim; }
  std::uint64_t values_bytes() const { return static_cast<std::uint64_t>(part_elements()) * element_bytes(type); }
  /// Scales of one part; 0 unless int8.
  std::int64_t scales() const;
  std::uint64_t scales_bytes() const { return static_cast<std::uint64_t>(scales()) * sizeof(std::uint16_t); }
  /// Where a part's scales begin, in bytes.
  std::uint64_t scales_offset() const { return (values_bytes() + 1) / 2 * 2; }
  /// Bytes of one part in memory.
  std::uint64_t part_bytes() const { return (scales_offset() + scales_bytes() + 3) / 4 * 4; }
  /// Bytes of a line and of a page, all layers, without padding: as backend::read gives them.
  std::uint64_t line_bytes() const {
    return (values_bytes() + scales_bytes()) * line_parts * static_cast<std::uint64_t>(layers);
  }
  std::uint64_t page_bytes() const;

  friend bool operator==(const cache_shape&, const cache_shape&) = default;
};

/// Bounds every count so that no size of a valid shape overflows. Errors: `invalid_cache_shape`.
result<void> validate(const cache_shape& shape);

/// KV heads [first, first + count).
struct head_range {
  std::int32_t first = 0;
  std::int32_t count = 0;

  friend bool operator==(const head_range&, const head_range&) = default;
};

/// The heads of shard `shard` of `shards`: as even as can be, in order.
constexpr head_range shard_heads(std::int32_t kv_heads, std::int32_t shards, std::int32_t shard) {
  const auto begin = [&](std::int64_t s) { return static_cast<std::int32_t>(s * kv_heads / shards); };
  return {begin(shard), begin(std::int64_t{shard} + 1) - begin(shard)};
}

/// What one shard of a line is made of.
cache_shape shard_shape(const cache_shape& shape, std::int32_t shards, std::int32_t shard);

/// Bytes that a page takes in memory when it is split into `shards`: page_bytes and the padding of the parts.
std::uint64_t page_memory_bytes(const cache_shape& shape, std::int32_t shards);

}  // namespace kvern::gpu
