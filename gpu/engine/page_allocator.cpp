#include "gpu/engine/page_allocator.hpp"

#include <limits>

namespace kvern::gpu {
namespace {

constexpr domain_id unknown = std::numeric_limits<domain_id>::max();

}  // namespace

page_allocator::page_allocator(std::int32_t pages) : held_(static_cast<std::size_t>(pages), 0) {
  free_.reserve(held_.size());
  for (page_id p = pages; p-- > 0;) free_.push_back(p);
}

bool page_allocator::allocate(std::int32_t count, domain_id domain, std::vector<page_id>& pages,
                              std::vector<page_id>& dirty) {
  if (count > free_pages()) return false;
  for (std::int32_t i = 0; i < count; ++i) {
    const page_id p = free_.back();
    free_.pop_back();
    domain_id& held = held_[static_cast<std::size_t>(p)];
    if (held != 0 && held != domain) dirty.push_back(p);
    held = domain;
    pages.push_back(p);
  }
  return true;
}

void page_allocator::free(std::span<const page_id> pages) { free_.insert(free_.end(), pages.begin(), pages.end()); }

void page_allocator::distrust(std::span<const page_id> pages) {
  for (const page_id p : pages) held_[static_cast<std::size_t>(p)] = unknown;
}

}  // namespace kvern::gpu
