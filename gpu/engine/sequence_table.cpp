#include "gpu/engine/sequence_table.hpp"

#include <algorithm>
#include <utility>

namespace kvern::gpu {
namespace {

bool sees_block(const rotation& r, std::int32_t window, std::int32_t position, std::int32_t block) {
  bool seen = false;
  for_visible_blocks(r, window, position,
                     [&](std::int32_t first, std::int32_t end) { seen = seen || (block >= first && block < end); });
  return seen;
}

}  // namespace

sequence_table::sequence_table(const cache_geometry& geometry)
    : geometry_(geometry),
      pool_(geometry.frames()),
      index_(geometry.pages()),
      held_(static_cast<std::size_t>(geometry.pages()), 0) {}

sequence* sequence_table::find(sequence_id id) {
  const auto it = sequences_.find(id);
  return it == sequences_.end() ? nullptr : &it->second;
}

const sequence* sequence_table::find(sequence_id id) const {
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
  for (auto f = s.frames.rbegin(); f != s.frames.rend(); ++f) drop(s, *f);
  --s.tenant->sequences;
  sequences_.erase(s.id);
}

frame_claim sequence_table::claim_of(const sequence& s, std::int32_t table, std::int32_t block) const {
  if (block < 0 || block >= s.blocks) return {};
  const std::int32_t at = geometry_.dense() ? 0 : block * geometry_.tables() + table;
  const frame_claim& c = s.frames[static_cast<std::size_t>(at)].claim;
  return pool_.valid(c) ? c : frame_claim{};
}

held_frame& sequence_table::at(sequence& s, std::int32_t table, std::int32_t block) {
  return s.frames[static_cast<std::size_t>(block * geometry_.tables() + table)];
}

page_id sequence_table::page(const sequence& s, std::int32_t table, std::int32_t block) const {
  const frame_claim c = claim_of(s, table, block);
  if (c.frame == no_frame || !geometry_.dense()) return c.frame;
  const std::int32_t place = geometry_.place(s.rotate, block);
  if (!s.places.empty() && s.places[static_cast<std::size_t>(place)] != block) return no_page;
  return geometry_.slot_page(c.frame, table, place);
}

void sequence_table::drop(sequence& s, held_frame& f) {
  if (!pool_.valid(f.claim)) {
    f = {};
    return;
  }
  if (f.used) {
    pool_.stop_using(f.claim, idle_rank::unused);
    --s.in_use;
  }
  // A dense slot stays cached only while the index names one of its pages.
  if (geometry_.dense() && pool_.cached(f.claim.frame)) {
    bool named = false;
    const page_id first = f.claim.frame * geometry_.frame_pages();
    for (page_id p = first; p < first + geometry_.frame_pages() && !named; ++p) named = index_.has(p);
    if (!named) pool_.set_cached(f.claim, false);
  }
  pool_.drop(f.claim);
  f = {};
  ++epoch_;
}

void sequence_table::replace(sequence& s, held_frame& f, const frame_claim& by) {
  const bool used = f.used;
  drop(s, f);
  f = {by, used};
  s.in_use += used ? 1 : 0;
}

void sequence_table::use_visible(sequence& s) {
  const auto use = [&](held_frame& f) {
    if (f.used || !pool_.valid(f.claim)) return;
    pool_.use(f.claim);
    f.used = true;
    ++s.in_use;
  };
  if (geometry_.dense()) {
    for (held_frame& f : s.frames) use(f);
    return;
  }
  for (std::int32_t t = 0; t < geometry_.tables(); ++t)
    for_visible_blocks(s.rotate, geometry_.window(t), s.committed, [&](std::int32_t first, std::int32_t end) {
      for (std::int32_t b = first; b < end; ++b) use(at(s, t, b));
    });
}

void sequence_table::start(sequence& s, const reuse& found, const rotation& rotate) {
  if (geometry_.dense()) {
    if (!s.frames.empty() && !pool_.valid(s.frames.front().claim)) s.frames.clear();
    if (s.frames.empty()) {
      s.blocks = 0;
      s.places.clear();
    }
    s.sources = found.sources;
  } else {
    std::vector<held_frame> kept(found.claims.size());
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const frame_claim& c = found.claims[i];
      if (i < s.frames.size() && s.frames[i].claim == c)
        kept[i] = std::exchange(s.frames[i], {});
      else if (c.frame != no_frame) {
        pool_.hold(c);
        kept[i].claim = c;
      }
    }
    for (auto f = s.frames.rbegin(); f != s.frames.rend(); ++f) drop(s, *f);
    s.frames = std::move(kept);
    s.blocks = static_cast<std::int32_t>(s.frames.size()) / geometry_.tables();
  }
  s.committed = found.lines;
  if (geometry_.dense()) s.blocks = std::min(s.blocks, blocks_for(s.committed));
  s.rotate = rotate;
  s.running = true;
  s.published = 0;
  s.trimmed = -1;
  s.donor = 0;
  s.unvouched = s.unvouched && found.lines > 0;
  use_visible(s);
  ++epoch_;
}

void sequence_table::stop(sequence& s, idle_rank rank) {
  s.running = false;
  s.in_use = 0;
  ++epoch_;
  for (auto f = s.frames.rbegin(); f != s.frames.rend(); ++f)
    if (std::exchange(f->used, false)) pool_.stop_using(f->claim, rank);
}

void sequence_table::set_rank(sequence& s, idle_rank rank) {
  for (auto f = s.frames.rbegin(); f != s.frames.rend(); ++f)
    if (pool_.valid(f->claim) && pool_.rank(f->claim.frame) != idle_rank::out_of_window) pool_.set_rank(f->claim, rank);
}

void sequence_table::trim(sequence& s) {
  const std::int32_t block = s.committed / page_lines;
  if (geometry_.dense() || s.trimmed == block) return;
  s.trimmed = block;
  for (std::int32_t t = 0; t < geometry_.tables(); ++t) {
    const std::int32_t window = geometry_.window(t);
    if (window == 0 && s.rotate.ring == 0) continue;
    for (std::int32_t b = 0; b < s.blocks; ++b) {
      held_frame& f = at(s, t, b);
      if (f.used && !sees_block(s.rotate, window, s.committed, b)) {
        pool_.stop_using(f.claim, idle_rank::out_of_window);
        f.used = false;
        --s.in_use;
        ++epoch_;
      }
    }
  }
  if (s.rotate.ring == 0) return;
  const std::int32_t oldest = std::min(block - s.rotate.ring + 1, s.blocks);
  for (std::int32_t b = s.rotate.keep; b < oldest; ++b)
    for (std::int32_t t = 0; t < geometry_.tables(); ++t) drop(s, at(s, t, b));
}

std::int32_t sequence_table::copies_before_write(const sequence& s) const {
  if (geometry_.dense() || s.committed % page_lines == 0) return 0;
  const bool full = pool_.free_frames() + pool_.idle_frames() == 0;
  std::int32_t copies = 0;
  for (std::int32_t t = 0; t < geometry_.tables(); ++t) {
    const frame_claim tail = claim_of(s, t, s.committed / page_lines);
    copies += is_shared(tail) && (pool_.users(tail.frame) > 1 || !full) ? 1 : 0;
  }
  return copies;
}

std::int32_t sequence_table::lines_there(const sequence& s) const {
  const auto sees_all = [&](std::int32_t position) {
    bool all = true;
    for (std::int32_t t = 0; t < geometry_.tables() && all; ++t)
      for_visible_blocks(s.rotate, geometry_.window(t), position, [&](std::int32_t first, std::int32_t end) {
        for (; first < end && all; ++first) all = page(s, t, first) != no_page;
      });
    return all;
  };
  std::int32_t lines = s.committed;
  while (lines > 0 && !sees_all(lines)) lines = (lines - 1) / page_lines * page_lines;
  return lines;
}

std::int32_t sequence_table::exclusive(const sequence& s) const {
  return static_cast<std::int32_t>(std::count_if(s.frames.begin(), s.frames.end(), [this](const held_frame& f) {
    return f.used && pool_.users(f.claim.frame) == 1;
  }));
}

void sequence_table::publish(sequence& s, std::span<const block_hash> chain, std::int32_t lines) {
  if (s.unvouched) return;
  const std::int32_t end =
      std::min({lines / page_lines, plain_blocks(s.rotate), static_cast<std::int32_t>(chain.size()), s.blocks});
  for (; s.published < end; ++s.published)
    for (std::int32_t t = 0; t < geometry_.tables(); ++t) {
      const page_id own = page(s, t, s.published);
      if (own == no_page || index_.has(own)) continue;
      const auto block = static_cast<std::size_t>(s.published);
      const page_id known = index_.find(t, chain, block, s.tokens);
      if (known == no_page) {
        if (index_.add(own, t, chain, block, s.tokens)) pool_.set_cached(claim_of(s, t, s.published), true);
      } else if (!geometry_.dense()) {
        held_frame& f = at(s, t, s.published);
        const frame_claim c = pool_.claim(known);
        pool_.hold(c);
        if (f.used) pool_.use(c);
        replace(s, f, c);
      }
      ++epoch_;
    }
}

void sequence_table::cut(sequence& s, std::int32_t length) {
  s.committed = std::min(s.committed, length);
  s.tokens.resize(std::min(s.tokens.size(), static_cast<std::size_t>(length)));
  s.published = std::min(s.published, length / page_lines);
  s.trimmed = -1;
  if (geometry_.dense()) return;
  const std::int32_t blocks = std::min(s.blocks, blocks_for(s.committed));
  const auto kept = static_cast<std::size_t>(blocks * geometry_.tables());
  for (; s.frames.size() > kept; s.frames.pop_back()) drop(s, s.frames.back());
  s.blocks = blocks;
}

void sequence_table::fork(const sequence& from, sequence& to, std::int32_t length, std::int32_t committed) {
  to.tokens.assign(from.tokens.begin(), from.tokens.begin() + length);
  to.committed = committed;
  to.rotate = from.rotate;
  to.unvouched = from.unvouched;
  ++epoch_;
  if (geometry_.dense()) {
    to.donor = from.frames.empty() && from.donor != 0 ? from.donor : from.id;
    return;
  }
  to.blocks = std::min(from.blocks, blocks_for(to.committed));
  to.frames.resize(static_cast<std::size_t>(to.blocks * geometry_.tables()));
  for (std::size_t i = 0; i < to.frames.size(); ++i) {
    if (!pool_.valid(from.frames[i].claim)) continue;
    to.frames[i].claim = from.frames[i].claim;
    pool_.hold(to.frames[i].claim);
  }
}

void sequence_table::forget_pages(frame_id frame) {
  const page_id first = frame * geometry_.frame_pages();
  for (page_id p = first; p < first + geometry_.frame_pages(); ++p) index_.remove(p);
}

std::int32_t sequence_table::evict(tenant_account& tenant, std::int32_t count) {
  std::int32_t freed = 0;
  for (; freed < count; ++freed) {
    const frame_id frame = pool_.next_to_evict(tenant.frames);
    if (frame == no_frame) break;
    forget_pages(frame);
    pool_.evict(frame);
    ++epoch_;
  }
  return freed;
}

}  // namespace kvern::gpu
