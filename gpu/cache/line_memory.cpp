#include "gpu/cache/line_memory.hpp"

#include <fmt/format.h>

#include <limits>
#include <utility>

namespace kvern::gpu {

result<line_memory> line_memory::create(const cache_shape& shape, std::int64_t lines, line_memory_options options) {
  if (auto ok = validate(shape); !ok) return std::unexpected(std::move(ok.error()));
  if (auto ok = validate({.type = shape.type, .scale = shape.scale, .shards = options.shards}, shape.kv_heads); !ok)
    return std::unexpected(std::move(ok.error()));
  line_memory made;
  made.shape_ = shape;
  for (std::int32_t s = 0; s < options.shards; ++s)
    if (auto ok = made.add_shard(s, lines, options); !ok) return std::unexpected(std::move(ok.error()));
  return made;
}

result<void> line_memory::add_shard(std::int32_t shard, std::int64_t lines, const line_memory_options& options) {
  const cache_shape shape = shard_shape(shape_, options.shards, shard);
  shards_.push_back({shape, shard_heads(shape_.kv_heads, options.shards, shard)});
  const auto part_bytes = static_cast<std::int64_t>(shape.part_bytes());
  const std::int32_t layers_in_block = options.stacked ? shape.layers : 1;
  const std::int64_t parts_in_block = std::int64_t{layers_in_block} * line_parts;
  if (lines < 1 || lines > std::numeric_limits<std::int64_t>::max() / (parts_in_block * part_bytes))
    return fail("out_of_memory",
                fmt::format("{} lines of {} bytes for {} cannot be had: lower the setting that sizes it.", lines,
                            shape_.line_bytes(), options.purpose));
  const auto block_bytes = static_cast<std::uint64_t>(lines * parts_in_block * part_bytes);
  for (std::int32_t first = 0; first < shape.layers; first += layers_in_block) {
    auto block = memory_block::create(block_bytes, options.purpose, options.use);
    if (!block) return std::unexpected(std::move(block.error()));
    if (!options.nodes.empty()) block->prefer_nodes(options.nodes[static_cast<std::size_t>(shard)]);
    if (options.noise_seed) block->fill_with_noise(*options.noise_seed + memory_.size());
    const bool by_part = options.order == line_order::by_part;
    const std::int64_t between_parts = by_part ? lines * part_bytes : part_bytes;
    const std::int64_t between_lines = by_part ? part_bytes : parts_in_block * part_bytes;
    for (std::int64_t part = 0; part < parts_in_block; ++part)
      runs_.push_back({block->data() + part * between_parts, between_lines});
    memory_.push_back(std::move(*block));
  }
  return {};
}

std::uint64_t line_memory::bytes() const {
  std::uint64_t all = 0;
  for (const memory_block& block : memory_) all += block.size();
  return all;
}

}  // namespace kvern::gpu
