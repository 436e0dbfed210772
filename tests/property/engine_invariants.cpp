#include "tests/property/engine_invariants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace kvern::gpu {
namespace {

struct frame_counts {
  std::int32_t holders = 0;
  std::int32_t users = 0;
  const tenant_account* tenant = nullptr;
};

std::string broken_in(const sequence_table& table, const sequence& s, std::map<frame_id, frame_counts>& counted) {
  const auto broken = [&](const char* what) { return fmt::format("sequence {}: {}", s.id, what); };
  std::int32_t in_use = 0;
  for (const held_frame& f : s.frames) {
    if (!table.pool().valid(f.claim)) {
      if (f.used) return broken("uses a frame that was evicted");
      continue;
    }
    frame_counts& c = counted[f.claim.frame];
    ++c.holders;
    c.users += f.used ? 1 : 0;
    in_use += f.used ? 1 : 0;
    if (c.tenant != nullptr && c.tenant != s.tenant) return broken("has a page of another tenant");
    c.tenant = s.tenant;
  }
  if (s.in_use != in_use) return broken("frames in use are miscounted");
  if (s.running != (s.turn != nullptr && s.turn->running)) return broken("runs without a running turn, or the reverse");
  if (!s.running && in_use != 0) return broken("uses frames and does not run");
  if (s.turn != nullptr && s.turn->started && static_cast<std::int32_t>(s.tokens.size()) <= s.committed)
    return broken("has a turn and nothing to compute");
  bool all = true;
  for (std::int32_t t = 0; s.running && t < table.geometry().tables(); ++t)
    for_visible_blocks(s.rotate, table.geometry().window(t), s.committed, [&](std::int32_t block, std::int32_t end) {
      for (; block < end; ++block) all = all && table.page(s, t, block) != no_page;
    });
  return all ? "" : broken("sees a page that is not there");
}

}  // namespace

std::string broken_invariant(const engine_impl& e) {
  const sequence_table& table = e.sequences();
  const frame_pool& pool = table.pool();
  if (!pool.consistent()) return "the frame pool's lists and counts disagree";
  std::map<frame_id, frame_counts> counted;
  std::int32_t running = 0;
  for (const auto& [id, s] : table.all()) {
    if (std::string broken = broken_in(table, s, counted); !broken.empty()) return broken;
    running += s.running ? 1 : 0;
  }
  std::size_t cached = 0;
  for (frame_id f = 0; f < pool.total(); ++f) {
    const frame_counts& c = counted[f];
    if (pool.holders(f) != c.holders || pool.users(f) != c.users)
      return fmt::format("frame {} has {} holders and {} users; the pool says {} and {}", f, c.holders, c.users,
                         pool.holders(f), pool.users(f));
    if (pool.is_free(f) != (c.holders == 0 && !pool.cached(f))) return fmt::format("frame {} is free or is not", f);
    if (table.geometry().dense()) continue;
    if (pool.cached(f) != table.index().has(f)) return fmt::format("frame {} and the index disagree", f);
    cached += pool.cached(f) ? 1 : 0;
  }
  if (!table.geometry().dense() && cached != table.index().size()) return "the index names pages that are not cached";
  for (const auto& [name, t] : e.tenants())
    if (t.waiting != std::count_if(t.turns.begin(), t.turns.end(), [](const auto& x) { return !x.second->running; }))
      return "waiting turns of " + name + " are miscounted";
  if (e.stats().running != running) return "running turns are miscounted";
  return {};
}

}  // namespace kvern::gpu
