#include "gpu/engine/sequence_table.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace kvern::gpu {
namespace {

constexpr domain_id unknown = std::numeric_limits<domain_id>::max();

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

void sequence_table::first_write(page_id page, domain_id domain, std::vector<page_id>& clear) {
  domain_id& held = held_[static_cast<std::size_t>(page)];
  if (held != 0 && held != domain) clear.push_back(page);
  held = domain;
}

void sequence_table::abandon(const preparation& todo) {
  for (const page_id p : todo.clear) held_[static_cast<std::size_t>(p)] = unknown;
  for (const auto& [s, lines] : todo.at_stake) cut(*s, lines);
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

std::int32_t sequence_table::exclusive(const sequence& s) const {
  return static_cast<std::int32_t>(std::count_if(s.frames.begin(), s.frames.end(), [this](const held_frame& f) {
    return f.used && pool_.users(f.claim.frame) == 1;
  }));
}

bool sequence_table::extend(sequence& s, std::int32_t end, std::int32_t frames, preparation& todo) {
  if (geometry_.dense()) return extend_slot(s, end, todo);
  const std::int32_t lines = s.committed % page_lines;
  const bool copy = frames > std::max(0, blocks_for(end) - s.blocks) * geometry_.tables();
  for (std::int32_t t = 0; lines > 0 && t < geometry_.tables(); ++t)
    if (!write_alone(s, at(s, t, s.committed / page_lines), lines, copy, todo)) return false;
  for (; s.blocks < blocks_for(end); ++s.blocks)
    for (std::int32_t t = 0; t < geometry_.tables(); ++t) {
      const frame_claim c = pool_.allocate(s.tenant->frames);
      if (c.frame == no_frame) {
        // The tables of a block stand together.
        for (; t > 0; --t) {
          drop(s, s.frames.back());
          s.frames.pop_back();
        }
        return false;
      }
      first_write(c.frame, s.tenant->domain, todo.clear);
      s.frames.push_back({c, true});
      ++s.in_use;
    }
  return true;
}

/// Makes the frame of a sequence's last lines its own before another is written into it.
bool sequence_table::write_alone(sequence& s, held_frame& tail, std::int32_t lines, bool copy, preparation& todo) {
  if (!is_shared(tail.claim)) return true;
  const frame_claim c = copy ? pool_.allocate(s.tenant->frames) : frame_claim{};
  if (c.frame == no_frame) {
    if (pool_.users(tail.claim.frame) > 1) return false;
    index_.remove(tail.claim.frame);
    tail.claim = pool_.seize(tail.claim);
    ++epoch_;
    return true;
  }
  first_write(c.frame, s.tenant->domain, todo.clear);
  todo.copies.push_back({.from = tail.claim.frame, .to = c.frame, .lines = lines});
  todo.at_stake.emplace_back(&s, s.committed - lines);
  replace(s, tail, c);
  return true;
}

bool sequence_table::extend_slot(sequence& s, std::int32_t end, preparation& todo) {
  if (s.frames.empty()) {
    const frame_claim c = pool_.allocate(s.tenant->frames);
    if (c.frame == no_frame) return false;
    s.frames.push_back({c, true});
    ++s.in_use;
  }
  const std::int32_t slot = s.frames.front().claim.frame;
  std::int32_t written = s.committed / page_lines;
  // By the copies for sequences before this one, which run first.
  const auto earlier = static_cast<std::ptrdiff_t>(todo.copies.size());
  const auto is_overwritten = [&](page_id p) {
    return std::any_of(todo.copies.begin(), todo.copies.begin() + earlier,
                       [p](const page_copy& c) { return c.to == p; });
  };
  bool first_copy = true;
  for (const block_source& from : std::exchange(s.sources, {})) {
    if (from.block * page_lines >= s.committed) break;
    if (!pool_.valid(from.claim) || is_overwritten(from.page)) {
      // As many rows as planned, from further back: a slot that wraps must not place blocks of later ones.
      end -= s.committed - from.block * page_lines;
      s.committed = from.block * page_lines;
      written = std::min(written, from.block);
      break;
    }
    const page_id to = geometry_.slot_page(slot, from.table, from.block);
    if (to == from.page) continue;
    if (from.block < written || std::exchange(first_copy, false))
      todo.at_stake.emplace_back(&s, from.block * page_lines);
    written = std::min(written, from.block);
    todo.copies.push_back({.from = from.page, .to = to, .lines = from.lines});
  }
  for (std::int32_t b = std::min(written, s.blocks); b < blocks_for(end); ++b) {
    if (b >= geometry_.slot_blocks() && s.places.empty()) {
      s.places.resize(static_cast<std::size_t>(geometry_.slot_blocks()));
      std::iota(s.places.begin(), s.places.end(), 0);
    }
    const std::int32_t place = geometry_.place(s.rotate, b);
    if (!s.places.empty()) s.places[static_cast<std::size_t>(place)] = b;
    for (std::int32_t t = 0; t < geometry_.tables(); ++t) {
      const page_id p = geometry_.slot_page(slot, t, place);
      first_write(p, s.tenant->domain, todo.clear);
      index_.remove(p);
    }
  }
  s.blocks = std::max(s.blocks, blocks_for(end));
  ++epoch_;
  return true;
}

void sequence_table::publish(sequence& s, std::span<const block_hash> chain, std::int32_t lines) {
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

page_id sequence_table::import_page(sequence& s, std::int32_t table, std::int32_t block, std::vector<page_id>& clear) {
  const auto rest = [&](held_frame& f) {
    pool_.stop_using(f.claim, idle_rank::awaited);
    f.used = false;
    --s.in_use;
  };
  if (geometry_.dense()) {
    if (!s.frames.empty() && !pool_.valid(s.frames.front().claim)) return no_page;
    const bool first = s.frames.empty();
    preparation todo;
    if (!extend_slot(s, std::max(s.blocks, block + 1) * page_lines, todo)) return no_page;
    if (first) rest(s.frames.front());
    clear.insert(clear.end(), todo.clear.begin(), todo.clear.end());
    s.imported.resize(static_cast<std::size_t>(s.blocks));
    ++s.imported[static_cast<std::size_t>(block)];
    return geometry_.slot_page(s.frames.front().claim.frame, table, geometry_.place(s.rotate, block));
  }
  if (block >= s.blocks) {
    s.blocks = block + 1;
    s.frames.resize(static_cast<std::size_t>(s.blocks * geometry_.tables()));
  }
  held_frame& f = at(s, table, block);
  if (pool_.valid(f.claim)) return f.claim.frame;
  const frame_claim c = pool_.allocate(s.tenant->frames);
  if (c.frame == no_frame) return no_page;
  first_write(c.frame, s.tenant->domain, clear);
  f = {c, true};
  ++s.in_use;
  rest(f);
  return c.frame;
}

void sequence_table::end_import(sequence& s) {
  s.importing = false;
  ++epoch_;
  set_rank(s, idle_rank::unused);
  if (!geometry_.dense()) return;
  s.places.assign(static_cast<std::size_t>(geometry_.slot_blocks()), -1);
  for (std::int32_t b = 0; b < static_cast<std::int32_t>(s.imported.size()); ++b)
    if (s.imported[static_cast<std::size_t>(b)] == geometry_.tables())
      s.places[static_cast<std::size_t>(geometry_.place(s.rotate, b))] = b;
  s.imported.clear();
}

}  // namespace kvern::gpu
