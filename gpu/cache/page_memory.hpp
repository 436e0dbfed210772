#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/error.hpp"
#include "gpu/backend.hpp"
#include "gpu/cache/cache_shape.hpp"
#include "gpu/cache/memory_block.hpp"

namespace kvern::gpu {

/// Parts (K or V of one layer) at equal distances: line n begins at `base + n * stride` and is `part_bytes` long.
struct line_run {
  std::byte* base = nullptr;
  std::int64_t stride = 0;  ///< bytes

  std::byte* line(std::int64_t n) const { return base + n * stride; }
};

struct page_memory_options {
  /// For tests: pages begin with random bits of this seed instead of zeros, NaNs among them.
  std::optional<std::uint64_t> noise_seed;
};

/// The lines of all pages: one allocation `[layer][k|v][page][line][kv_head][head_dim]`, so a layer's K (or V) is one
/// run in which the line at `offset` of `page` is number `page * page_lines + offset`.
///
/// Knows no owner and no free list: which page belongs to whom is the engine's business. Not thread-safe; distinct
/// lines may be written by distinct threads.
class page_memory {
 public:
  /// Errors: `invalid_cache_shape`, `out_of_memory`.
  static result<page_memory> create(const cache_shape& shape, std::int32_t pages,
                                    const page_memory_options& options = {});

  const cache_shape& shape() const { return shape_; }
  std::int32_t pages() const { return pages_; }
  std::uint64_t bytes() const { return memory_.size(); }

  line_run lines(std::int32_t layer, line_part part) const;

  /// Zeros in every line of `pages`. Errors: `page_out_of_range`; then nothing is written.
  result<void> clear(std::span<const page_id> pages);

  /// See backend. Errors: `page_out_of_range`; then nothing is written.
  result<void> copy(std::span<const page_copy> copies);
  result<void> read(page_id page, std::int32_t lines, std::span<std::byte> out) const;
  result<void> write(page_id page, std::int32_t lines, std::span<const std::byte> in);

 private:
  result<void> check(page_id page, std::int32_t lines, std::size_t bytes) const;
  page_memory(const cache_shape& shape, std::int32_t pages, memory_block memory);

  cache_shape shape_;
  std::int32_t pages_;
  memory_block memory_;
};

}  // namespace kvern::gpu
