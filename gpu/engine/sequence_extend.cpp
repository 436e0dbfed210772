// Where a sequence's new lines go.
#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "gpu/engine/sequence_table.hpp"

namespace kvern::gpu {
namespace {

constexpr domain_id unknown = std::numeric_limits<domain_id>::max();

}  // namespace

void sequence_table::first_write(page_id page, domain_id domain, std::vector<page_id>& clear) {
  domain_id& held = held_[static_cast<std::size_t>(page)];
  if (held != 0 && held != domain) clear.push_back(page);
  held = domain;
}

void sequence_table::abandon(const preparation& todo) {
  for (const page_id p : todo.clear) held_[static_cast<std::size_t>(p)] = unknown;
  for (const auto& [s, lines] : todo.at_stake) cut(*s, lines);
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

page_id sequence_table::import_page(sequence& s, std::int32_t table, std::int32_t block, std::vector<page_id>& clear) {
  if (geometry_.dense()) {
    preparation todo;
    if (!extend_slot(s, std::max(s.blocks, block + 1) * page_lines, todo)) return no_page;
    clear.insert(clear.end(), todo.clear.begin(), todo.clear.end());
    s.imported.resize(static_cast<std::size_t>(s.blocks));
    // Of the blocks that have one place in a slot, the one that came first has it.
    const std::int32_t turn = geometry_.slot_blocks() - s.rotate.keep;
    for (std::int32_t other = block % turn; other < s.blocks; other += turn)
      if (other != block && s.imported[static_cast<std::size_t>(other)] > 0 &&
          geometry_.place(s.rotate, other) == geometry_.place(s.rotate, block))
        return no_page;
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
  return c.frame;
}

void sequence_table::end_import(sequence& s) {
  s.importing = false;
  stop(s, idle_rank::unused);
  if (!geometry_.dense()) return;
  s.places.assign(static_cast<std::size_t>(geometry_.slot_blocks()), -1);
  for (std::int32_t b = 0; b < static_cast<std::int32_t>(s.imported.size()); ++b)
    if (s.imported[static_cast<std::size_t>(b)] == geometry_.tables())
      s.places[static_cast<std::size_t>(geometry_.place(s.rotate, b))] = b;
  s.imported.clear();
}

}  // namespace kvern::gpu
