#include "gpu/cache/page_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace kvern::gpu {

page_memory::page_memory(const cache_shape& shape, std::int32_t pages, memory_block memory)
    : shape_(shape), pages_(pages), memory_(std::move(memory)) {}

result<page_memory> page_memory::create(const cache_shape& shape, std::int32_t pages,
                                        const page_memory_options& options) {
  if (auto ok = validate(shape); !ok) return std::unexpected(ok.error());
  if (pages < 1 || static_cast<std::uint64_t>(pages) > std::numeric_limits<std::uint64_t>::max() / shape.page_bytes())
    return fail("out_of_memory", fmt::format("{} pages of {} bytes cannot be had.", pages, shape.page_bytes()));
  auto memory =
      memory_block::create(static_cast<std::uint64_t>(pages) * shape.page_bytes(), "the KV cache", memory_use::sparse);
  if (!memory) return std::unexpected(std::move(memory.error()));
  if (options.noise_seed) memory->fill_with_noise(*options.noise_seed);
  return page_memory(shape, pages, std::move(*memory));
}

line_run page_memory::lines(std::int32_t layer, line_part part) const {
  const auto part_bytes = static_cast<std::int64_t>(shape_.part_bytes());
  const std::int64_t run_bytes = part_bytes * page_lines * pages_;
  const std::int64_t run = static_cast<std::int64_t>(layer) * line_parts + static_cast<std::int64_t>(part);
  return {memory_.data() + run * run_bytes, part_bytes};
}

result<void> page_memory::clear(std::span<const page_id> pages) {
  for (const page_id page : pages)
    if (page < 0 || page >= pages_)
      return fail("page_out_of_range", fmt::format("Page {} was to be cleared; there are {}.", page, pages_));
  const std::size_t bytes = shape_.part_bytes() * static_cast<std::size_t>(page_lines);
  for (std::int32_t layer = 0; layer < shape_.layers; ++layer)
    for (const line_part part : {line_part::k, line_part::v}) {
      const line_run run = lines(layer, part);
      for (const page_id page : pages) std::memset(run.line(static_cast<std::int64_t>(page) * page_lines), 0, bytes);
    }
  return {};
}

result<void> page_memory::check(page_id page, std::int32_t lines, std::size_t bytes) const {
  if (page < 0 || page >= pages_) return fail("page_out_of_range", fmt::format("Page {} of {}.", page, pages_));
  if (lines < 0 || lines > page_lines || bytes != static_cast<std::size_t>(lines) * shape_.line_bytes())
    return fail("page_out_of_range", fmt::format("{} bytes for {} lines of a page.", bytes, lines));
  return {};
}

result<void> page_memory::copy(std::span<const page_copy> copies) {
  for (const page_copy& c : copies)
    for (const page_id page : {c.from, c.to})
      if (auto ok = check(page, c.lines, static_cast<std::size_t>(std::max(0, c.lines)) * shape_.line_bytes()); !ok)
        return ok;
  for (std::int32_t layer = 0; layer < shape_.layers; ++layer)
    for (const line_part part : {line_part::k, line_part::v}) {
      const line_run run = lines(layer, part);
      for (const page_copy& c : copies)
        std::memcpy(run.line(std::int64_t{c.to} * page_lines), run.line(std::int64_t{c.from} * page_lines),
                    static_cast<std::size_t>(c.lines) * shape_.part_bytes());
    }
  return {};
}

result<void> page_memory::read(page_id page, std::int32_t count, std::span<std::byte> out) const {
  if (auto ok = check(page, count, out.size()); !ok) return ok;
  const std::size_t bytes = static_cast<std::size_t>(count) * shape_.part_bytes();
  for (std::int32_t layer = 0; layer < shape_.layers; ++layer)
    for (const line_part part : {line_part::k, line_part::v}) {
      std::memcpy(out.data(), lines(layer, part).line(std::int64_t{page} * page_lines), bytes);
      out = out.subspan(bytes);
    }
  return {};
}

result<void> page_memory::write(page_id page, std::int32_t count, std::span<const std::byte> in) {
  if (auto ok = check(page, count, in.size()); !ok) return ok;
  const std::size_t bytes = static_cast<std::size_t>(count) * shape_.part_bytes();
  for (std::int32_t layer = 0; layer < shape_.layers; ++layer)
    for (const line_part part : {line_part::k, line_part::v}) {
      std::memcpy(lines(layer, part).line(std::int64_t{page} * page_lines), in.data(), bytes);
      in = in.subspan(bytes);
    }
  return {};
}

}  // namespace kvern::gpu
