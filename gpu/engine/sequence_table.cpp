#include "gpu/engine/sequence_table.hpp"

#include <algorithm>
#include <span>

namespace kvern::gpu {

sequence* sequence_table::find(sequence_id id) {
  const auto it = sequences_.find(id);
  return it == sequences_.end() ? nullptr : &it->second;
}

sequence& sequence_table::create(sequence_id id, tenant_account& tenant) {
  sequence& s = sequences_[id];
  s.id = id;
  s.tenant = &tenant;
  ++tenant.sequences;
  return s;
}

void sequence_table::erase(sequence& s) {
  give_back(s, 0);
  leave_idle(s);
  --s.tenant->sequences;
  sequences_.erase(s.id);
}

void sequence_table::leave_idle(sequence& s) {
  if (!s.in_idle) return;
  s.tenant->idle.erase(s.idle_key);
  s.tenant->idle_pages -= static_cast<std::int32_t>(s.pages.size());
  s.in_idle = false;
}

void sequence_table::set_running(sequence& s) {
  leave_idle(s);
  s.running = true;
}

void sequence_table::set_idle(sequence& s, bool awaited) {
  leave_idle(s);
  s.running = false;
  if (s.pages.empty()) return;
  s.idle_key = {awaited, ++uses_};
  s.tenant->idle.emplace(s.idle_key, &s);
  s.tenant->idle_pages += static_cast<std::int32_t>(s.pages.size());
  s.in_idle = true;
}

void sequence_table::give_back(sequence& s, std::int32_t keep) {
  const auto count = static_cast<std::int32_t>(s.pages.size()) - keep;
  if (count <= 0) return;
  allocator_.free(std::span(s.pages).last(static_cast<std::size_t>(count)));
  s.pages.resize(static_cast<std::size_t>(keep));
  s.tenant->pages -= count;
  if (s.in_idle) s.tenant->idle_pages -= count;
}

void sequence_table::rewind(sequence& s, std::int32_t length) {
  s.committed = std::min(s.committed, length);
  s.tokens.resize(static_cast<std::size_t>(s.committed));
  trim(s);
}

bool sequence_table::extend(sequence& s, std::int32_t count, std::vector<page_id>& dirty) {
  if (!allocator_.allocate(count, s.tenant->domain, s.pages, dirty)) return false;
  s.tenant->pages += count;
  if (s.in_idle) s.tenant->idle_pages += count;
  return true;
}

void sequence_table::trim(sequence& s) { give_back(s, pages_for(s.committed)); }

std::int32_t sequence_table::evict(tenant_account& tenant, std::int32_t count) {
  std::int32_t freed = 0;
  while (freed < count && !tenant.idle.empty()) {
    sequence& s = *tenant.idle.begin()->second;
    const auto held = static_cast<std::int32_t>(s.pages.size());
    const std::int32_t taken = std::min(held, count - freed);
    give_back(s, held - taken);
    s.committed = std::min(s.committed, (held - taken) * page_lines);
    // Without a turn the tokens serve only to validate lines; a waiting turn's are still its prompt and answer.
    if (s.turn == nullptr) s.tokens.resize(static_cast<std::size_t>(s.committed));
    if (s.pages.empty()) leave_idle(s);
    freed += taken;
  }
  return freed;
}

}  // namespace kvern::gpu
