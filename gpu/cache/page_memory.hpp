#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "gpu/backend.hpp"
#include "gpu/cache/line_memory.hpp"

namespace kvern::gpu {

struct page_memory_options {
  bool stacked = true;                        ///< one allocation for all layers of a page, or one for each
  std::int32_t shards = 1;                    ///< parts of the KV heads, each with allocations of its own
  std::vector<std::vector<int>> nodes{};      ///< [shard] the NUMA nodes to prefer; empty: any
  std::optional<std::uint64_t> noise_seed{};  ///< for tests: pages begin with random bits of this seed, not zeros
};

/// The lines of all pages. Of a shard: `[layer][k|v][page][line][part]`, so a layer's K (or V) is one run in which the
/// line at `offset` of `page` is number `page * page_lines + offset`.
///
/// Knows no owner and no free list: which page belongs to whom is the engine's business. Not thread-safe; distinct
/// lines may be written by distinct threads.
class page_memory {
 public:
  /// `shape`: of a page. Errors: `invalid_cache_shape`, `invalid_cache_options`, `out_of_memory`.
  static result<page_memory> create(const cache_shape& shape, std::int32_t pages, page_memory_options options = {});

  const cache_shape& shape() const { return memory_.shape(); }
  std::int32_t pages() const { return pages_; }
  std::uint64_t bytes() const { return memory_.bytes(); }
  std::int32_t shards() const { return memory_.shards(); }
  /// What a shard's lines are made of, and which heads they are.
  const cache_shape& shard(std::int32_t s) const { return memory_.shard(s); }
  head_range heads(std::int32_t s) const { return memory_.heads(s); }

  line_run lines(std::int32_t shard, std::int32_t layer, line_part part) const {
    return memory_.lines(shard, layer, part);
  }

  /// Zeros in every line of `pages`. Errors: `page_out_of_range`; then nothing is written.
  result<void> clear(std::span<const page_id> pages);

  /// See backend. Errors: `page_out_of_range`; then nothing is written.
  result<void> copy(std::span<const page_copy> copies);
  result<void> read(page_id page, std::int32_t lines, std::span<std::byte> out) const;
  result<void> write(page_id page, std::int32_t lines, std::span<const std::byte> in);

 private:
  page_memory(std::int32_t pages, line_memory memory);
  result<void> check(page_id page, std::int32_t lines) const;
  result<void> check(page_id page, std::int32_t lines, std::size_t bytes) const;
  template <class F>
  void for_runs(F&& visit) const;
  template <class F>
  void for_values_and_scales(page_id page, std::int32_t lines, F&& visit) const;

  std::int32_t pages_;
  line_memory memory_;
};

}  // namespace kvern::gpu
