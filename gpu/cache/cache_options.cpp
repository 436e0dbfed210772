#include "gpu/cache/cache_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>

namespace kvern::gpu {
namespace {

// In the order of the enumerators.
constexpr std::array<std::string_view, 4> line_types = {"f32", "f16", "bf16", "int8"};
constexpr std::array<std::string_view, 3> scale_spans = {"group", "head", "line"};
constexpr std::array<std::string_view, 3> cache_layouts = {"paged", "left", "ring"};
constexpr std::array<std::string_view, 2> cache_updates = {"lazy", "eager"};

template <class E, std::size_t N>
std::optional<E> parse(const std::array<std::string_view, N>& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<E>(std::distance(names.begin(), found));
}

}  // namespace

result<void> validate(const cache_options& options, std::int32_t kv_heads) {
  if (options.shards < 1 || options.shards > kv_heads)
    return fail("invalid_cache_options",
                fmt::format("shards is {}; the model has {} KV heads, so give 1 to {}: a shard holds whole heads.",
                            options.shards, kv_heads, kv_heads));
  if (options.type == line_type::int8 && options.scale == scale_span::line && options.shards > 1)
    return fail("invalid_cache_options",
                fmt::format("int8_scale = line and shards = {} cannot go together: one scale covers all heads of a "
                            "line, and each shard would need the others' values for it. Give int8_scale = head or "
                            "group, or shards = 1.",
                            options.shards));
  return {};
}

std::string_view to_string(line_type type) { return line_types[static_cast<std::size_t>(type)]; }
std::string_view to_string(scale_span span) { return scale_spans[static_cast<std::size_t>(span)]; }
std::string_view to_string(cache_layout layout) { return cache_layouts[static_cast<std::size_t>(layout)]; }
std::string_view to_string(cache_update update) { return cache_updates[static_cast<std::size_t>(update)]; }

std::optional<line_type> parse_line_type(std::string_view name) { return parse<line_type>(line_types, name); }
std::optional<scale_span> parse_scale_span(std::string_view name) { return parse<scale_span>(scale_spans, name); }
std::optional<cache_layout> parse_cache_layout(std::string_view name) {
  return parse<cache_layout>(cache_layouts, name);
}
std::optional<cache_update> parse_cache_update(std::string_view name) {
  return parse<cache_update>(cache_updates, name);
}

}  // namespace kvern::gpu
