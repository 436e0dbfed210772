#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gpu/backend.hpp"

namespace kvern::gpu {

/// Who may read what a page held: one tenant's time in the engine. Numbers begin at 1 and are never given twice.
using domain_id = std::uint64_t;

/// The free pages of a backend, and whose lines a free page still holds. Owned by the engine; not thread-safe.
class page_allocator {
 public:
  explicit page_allocator(std::int32_t pages);

  std::int32_t total() const { return static_cast<std::int32_t>(held_.size()); }
  std::int32_t free_pages() const { return static_cast<std::int32_t>(free_.size()); }

  /// Appends `count` pages to `pages`, and to `dirty` those among them that held another domain's lines: they must be
  /// cleared before use. False when fewer are free; then nothing changes.
  bool allocate(std::int32_t count, domain_id domain, std::vector<page_id>& pages, std::vector<page_id>& dirty);

  /// Takes back pages that `allocate` gave.
  void free(std::span<const page_id> pages);

  /// What these pages hold is unknown: whoever gets them next clears them.
  void distrust(std::span<const page_id> pages);

 private:
  std::vector<page_id> free_;    ///< the last is given first
  std::vector<domain_id> held_;  ///< [total]; 0: nothing since start
};

}  // namespace kvern::gpu
