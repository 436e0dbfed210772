#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.hpp"
#include "gpu/cache/cache_options.hpp"

namespace kvern::gpu {

constexpr std::size_t element_bytes(line_type type) { return type == line_type::f32 ? 4 : 2; }

/// K before V in every layout.
enum class line_part { k = 0, v = 1 };
inline constexpr int line_parts = 2;

/// What a line is made of: for each layer a K and a V part `[kv_head][head_dim]`. The one place that knows how many
/// bytes a part takes; pages and staging are laid out in parts.
struct cache_shape {
  std::int32_t layers = 0;
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  line_type type = line_type::f16;

  /// Elements of one part.
  std::int64_t part_elements() const { return static_cast<std::int64_t>(kv_heads) * head_dim; }
  /// Bytes of one part: K or V of one layer.
  std::uint64_t part_bytes() const { return static_cast<std::uint64_t>(part_elements()) * element_bytes(type); }
  /// Bytes of a line: K and V of all layers.
  std::uint64_t line_bytes() const { return part_bytes() * line_parts * static_cast<std::uint64_t>(layers); }
  /// Bytes of a page, all layers.
  std::uint64_t page_bytes() const;

  friend bool operator==(const cache_shape&, const cache_shape&) = default;
};

/// Bounds every count so that no size of a valid shape overflows. Errors: `invalid_cache_shape`.
result<void> validate(const cache_shape& shape);

}  // namespace kvern::gpu
