#include "gpu/cache/page_memory.hpp"

#include <fmt/format.h>

#include <cstring>
#include <utility>

namespace kvern::gpu {

page_memory::page_memory(std::int32_t pages, line_memory memory) : pages_(pages), memory_(std::move(memory)) {}

result<page_memory> page_memory::create(const cache_shape& shape, std::int32_t pages, page_memory_options options) {
  auto memory = line_memory::create(shape, std::int64_t{pages} * page_lines,
                                    {.order = line_order::by_part,
                                     .use = memory_use::sparse,
                                     .stacked = options.stacked,
                                     .shards = options.shards,
                                     .nodes = std::move(options.nodes),
                                     .noise_seed = options.noise_seed,
                                     .purpose = "the KV cache"});
  if (!memory) return std::unexpected(std::move(memory.error()));
  return page_memory(pages, std::move(*memory));
}

/// Calls `visit(run, part_bytes)` for the K and V of every layer in every shard.
template <class F>
void page_memory::for_runs(F&& visit) const {
  for (std::int32_t s = 0; s < shards(); ++s)
    for (std::int32_t layer = 0; layer < shape().layers; ++layer)
      for (const line_part part : {line_part::k, line_part::v})
        visit(lines(s, layer, part), static_cast<std::size_t>(shard(s).part_bytes()));
}

/// Calls `visit(bytes in memory, offset in the order of backend::read, count)` for everything that the first `count`
/// lines of a page hold: the values and the scales of each line, of each shard.
template <class F>
void page_memory::for_values_and_scales(page_id page, std::int32_t count, F&& visit) const {
  const std::size_t values = shape().values_bytes(), scales = shape().scales_bytes();
  const std::size_t head_values = values / static_cast<std::size_t>(shape().kv_heads);
  std::size_t at = 0;
  for (std::int32_t layer = 0; layer < shape().layers; ++layer)
    for (const line_part part : {line_part::k, line_part::v}) {
      std::size_t scales_at = at + static_cast<std::size_t>(count) * values;
      for (std::int32_t s = 0; s < shards(); ++s) {
        const line_run run = lines(s, layer, part);
        const cache_shape& own = shard(s);
        const std::size_t first = static_cast<std::size_t>(heads(s).first) * head_values;
        for (std::int32_t n = 0; n < count; ++n) {
          std::byte* const line = run.line(std::int64_t{page} * page_lines + n);
          const auto number = static_cast<std::size_t>(n);
          visit(line, at + number * values + first, own.values_bytes());
          if (scales > 0) visit(line + own.scales_offset(), scales_at + number * scales, own.scales_bytes());
        }
        scales_at += own.scales_bytes();
      }
      at += static_cast<std::size_t>(count) * (values + scales);
    }
}

result<void> page_memory::check(page_id page, std::int32_t count) const {
  if (page < 0 || page >= pages_)
    return fail("page_out_of_range", fmt::format("Page {} was named; there are {}.", page, pages_));
  if (count < 0 || count > page_lines)
    return fail("page_out_of_range", fmt::format("{} lines were named; a page has {}.", count, page_lines));
  return {};
}

result<void> page_memory::check(page_id page, std::int32_t count, std::size_t bytes) const {
  if (auto ok = check(page, count); !ok) return ok;
  const std::uint64_t needed = static_cast<std::uint64_t>(count) * shape().line_bytes();
  if (bytes != needed)
    return fail("page_out_of_range",
                fmt::format("{} lines have {} bytes; room for {} was given.", count, needed, bytes));
  return {};
}

result<void> page_memory::clear(std::span<const page_id> pages) {
  for (const page_id page : pages)
    if (auto ok = check(page, 0); !ok) return ok;
  for_runs([&](const line_run& run, std::size_t bytes) {
    for (const page_id page : pages)
      std::memset(run.line(std::int64_t{page} * page_lines), 0, bytes * static_cast<std::size_t>(page_lines));
  });
  return {};
}

result<void> page_memory::copy(std::span<const page_copy> copies) {
  for (const page_copy& c : copies)
    for (const page_id page : {c.from, c.to})
      if (auto ok = check(page, c.lines); !ok) return ok;
  for_runs([&](const line_run& run, std::size_t bytes) {
    for (const page_copy& c : copies)
      std::memmove(run.line(std::int64_t{c.to} * page_lines), run.line(std::int64_t{c.from} * page_lines),
                   bytes * static_cast<std::size_t>(c.lines));
  });
  return {};
}

result<void> page_memory::read(page_id page, std::int32_t count, std::span<std::byte> out) const {
  if (auto ok = check(page, count, out.size()); !ok) return ok;
  for_values_and_scales(page, count, [&](const std::byte* memory, std::size_t at, std::size_t bytes) {
    std::memcpy(out.data() + at, memory, bytes);
  });
  return {};
}

result<void> page_memory::write(page_id page, std::int32_t count, std::span<const std::byte> in) {
  if (auto ok = check(page, count, in.size()); !ok) return ok;
  for_values_and_scales(page, count, [&](std::byte* memory, std::size_t at, std::size_t bytes) {
    std::memcpy(memory, in.data() + at, bytes);
  });
  return {};
}

}  // namespace kvern::gpu
