#include "gpu/cache/staging.hpp"

#include <fmt/format.h>

#include <utility>

namespace kvern::gpu {

staging::staging(const cache_shape& shape, std::int32_t max_rows, memory_block memory)
    : shape_(shape), max_rows_(max_rows), memory_(std::move(memory)) {}

result<staging> staging::create(const cache_shape& shape, std::int32_t max_rows) {
  if (auto ok = validate(shape); !ok) return std::unexpected(ok.error());
  // A valid line has less than 2^40 bytes, so the product fits.
  constexpr std::int32_t limit = 1 << 20;
  if (max_rows < 1 || max_rows > limit)
    return fail("out_of_memory", fmt::format("A step can have 1 to {} rows, not {}.", limit, max_rows));
  auto memory = memory_block::create(static_cast<std::uint64_t>(max_rows) * shape.line_bytes(), "staged KV lines");
  if (!memory) return std::unexpected(std::move(memory.error()));
  return staging(shape, max_rows, std::move(*memory));
}

line_run staging::lines(std::int32_t layer, line_part part) const {
  const std::int64_t offset = static_cast<std::int64_t>(layer) * line_parts + static_cast<std::int64_t>(part);
  return {memory_.data() + offset * static_cast<std::int64_t>(shape_.part_bytes()),
          static_cast<std::int64_t>(shape_.line_bytes())};
}

}  // namespace kvern::gpu
