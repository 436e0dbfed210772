#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/error.hpp"

namespace kvern::gpu {

/// Type of the elements of a line.
enum class line_type { f32, f16, bf16, int8 };

/// What one scale of an int8 line covers: 32 values of a head (fewer at its end), a head, or the K or V of all heads.
enum class scale_span { group, head, line };

/// What fills a sequence's page tables: pages allocated one by one, a dense run from position 0, or such a run that
/// wraps at its end.
enum class cache_layout { paged, left, ring };

/// When new lines are written to pages: after sampling, in one finalize; or layer by layer, as soon as they exist.
enum class cache_update { lazy, eager };

/// How the cache lies in memory and when it is written. None of it changes what is computed, `type` and `scale` aside.
struct cache_options {
  cache_layout layout = cache_layout::paged;
  cache_update update = cache_update::lazy;
  bool stacked = true;        ///< one allocation for all layers, or one for each
  bool stage_stacked = true;  ///< staged lines of all layers together (one flush), or per layer (one flush each)
  line_type type = line_type::f16;
  scale_span scale = scale_span::group;  ///< of int8
  std::int32_t shards = 1;               ///< parts of the KV heads, each with pages, staging and threads of its own

  friend bool operator==(const cache_options&, const cache_options&) = default;
};

/// Whether a model with `kv_heads` can have such a cache. Every layout, update and stacking goes with every other, and
/// with every type. Errors: `invalid_cache_options`, naming the option and why.
result<void> validate(const cache_options& options, std::int32_t kv_heads);

/// The names of configuration and status: as the enumerators.
std::string_view to_string(line_type type);
std::string_view to_string(scale_span span);
std::string_view to_string(cache_layout layout);
std::string_view to_string(cache_update update);

/// The reverse; nullopt: no such name.
std::optional<line_type> parse_line_type(std::string_view name);
std::optional<scale_span> parse_scale_span(std::string_view name);
std::optional<cache_layout> parse_cache_layout(std::string_view name);
std::optional<cache_update> parse_cache_update(std::string_view name);

}  // namespace kvern::gpu
