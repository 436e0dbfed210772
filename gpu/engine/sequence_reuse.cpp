#include <algorithm>
#include <cstddef>
#include <vector>

#include "gpu/engine/sequence_table.hpp"

namespace kvern::gpu {
namespace {

std::int32_t agreeing(std::span<const token_id> a, std::span<const token_id> b, std::int32_t most) {
  std::int32_t n = 0;
  while (n < most && a[static_cast<std::size_t>(n)] == b[static_cast<std::size_t>(n)]) ++n;
  return n;
}

/// Lines computed under rotation `a` that are the same under `b`.
std::int32_t common_lines(std::int32_t lines, const rotation& a, const rotation& b) {
  if (a == b) return lines;
  const std::int32_t plain = std::min(plain_blocks(a), plain_blocks(b));
  return blocks_for(lines) > plain ? plain * page_lines : lines;
}

}  // namespace

reuse sequence_table::find_reuse(const tenant_account& tenant, const sequence* s, std::span<const token_id> tokens,
                                 std::int32_t common, std::span<const block_hash> chain, const rotation& rotate) const {
  const std::int32_t own = own_lines(s, common, rotate);
  const auto plain = static_cast<std::size_t>(plain_blocks(rotate));
  chain = chain.first(std::min(chain.size(), plain));
  return geometry_.dense() ? find_dense(tenant, s, tokens, own, chain, rotate)
                           : find_paged(s, tokens, own, chain, rotate);
}

std::int32_t sequence_table::own_lines(const sequence* s, std::int32_t common, const rotation& rotate) const {
  return s == nullptr ? 0 : common_lines(std::min(common, s->committed), s->rotate, rotate);
}

/// Whether a dense slot has all that the row at `position` sees under a rotation.
bool sequence_table::slot_has(const sequence& s, std::int32_t position, const rotation& rotate) const {
  bool has = true;
  for_visible_blocks(rotate, 0, position, [&](std::int32_t first, std::int32_t end) {
    for (std::int32_t b = first; b < end; ++b) has = has && page(s, 0, b) != no_page;
  });
  return has;
}

reuse sequence_table::find_paged(const sequence* s, std::span<const token_id> tokens, std::int32_t own,
                                 std::span<const block_hash> chain, const rotation& rotate) const {
  const std::int32_t tables = geometry_.tables();
  const auto most = static_cast<std::int32_t>(tokens.size()) - 1;
  const std::int32_t last =
      std::min(blocks_for(most), std::max(blocks_for(own), static_cast<std::int32_t>(chain.size())));
  const auto own_claim = [&](std::int32_t t, std::int32_t b) {
    return s != nullptr && b < blocks_for(own) ? claim_of(*s, t, b) : frame_claim{};
  };

  // What is there: claims by [block][table], and for each table how many blocks before b are there whole.
  reuse found;
  std::vector<std::int32_t> whole(static_cast<std::size_t>(tables), 0);
  bool goes_on = true;
  std::int32_t blocks = 0;
  for (; blocks < last && goes_on; ++blocks)
    for (std::int32_t t = 0; t < tables; ++t) {
      frame_claim c = own_claim(t, blocks);
      bool is_whole = c.frame != no_frame && own >= (blocks + 1) * page_lines;
      if (!is_whole && static_cast<std::size_t>(blocks) < chain.size()) {
        const page_id p = index_.find(t, chain, static_cast<std::size_t>(blocks), tokens);
        if (p != no_page) {
          c = pool_.claim(p);
          is_whole = true;
        }
      }
      found.claims.push_back(c);
      whole.push_back(whole[whole.size() - static_cast<std::size_t>(tables)] + (is_whole ? 1 : 0));
      if (!is_whole && geometry_.window(t) == 0 && rotate.ring == 0) goes_on = false;
    }
  const auto whole_before = [&](std::int32_t t, std::int32_t b) {
    return whole[static_cast<std::size_t>(b * tables + t)];
  };
  const auto claim_at = [&](std::int32_t t, std::int32_t b) {
    return found.claims[static_cast<std::size_t>(b * tables + t)];
  };

  const auto usable = [&](std::int32_t position) {
    bool all = true;
    for (std::int32_t t = 0; t < tables && all; ++t)
      for_visible_blocks(rotate, geometry_.window(t), position, [&](std::int32_t first, std::int32_t end) {
        if (end * page_lines > position) {  // the block of the row itself, in part
          --end;
          const bool part = whole_before(t, end + 1) > whole_before(t, end) ||
                            (position <= own && own_claim(t, end).frame != no_frame);
          all = all && part;
        }
        all = all && whole_before(t, end) - whole_before(t, first) == end - first;
      });
    return all;
  };
  std::int32_t lines = std::min(most, blocks * page_lines);
  while (lines > 0 && !usable(lines)) {
    const std::int32_t boundary = (lines - 1) / page_lines * page_lines;
    lines = own < lines ? std::max(boundary, own) : boundary;
  }

  found.lines = lines;
  found.claims.resize(static_cast<std::size_t>(blocks_for(lines) * tables));
  std::vector<bool> seen(found.claims.size(), false);
  for (std::int32_t t = 0; t < tables; ++t)
    for_visible_blocks(rotate, geometry_.window(t), lines, [&](std::int32_t first, std::int32_t end) {
      for (std::int32_t b = first; b < end; ++b) seen[static_cast<std::size_t>(b * tables + t)] = true;
    });
  for (std::int32_t b = 0; b < blocks_for(lines); ++b) {
    bool from_others = false;
    for (std::int32_t t = 0; t < tables; ++t) {
      const auto i = static_cast<std::size_t>(b * tables + t);
      const frame_claim c = claim_at(t, b);
      const bool is_own = c.frame != no_frame && c == own_claim(t, b);
      if (!seen[i]) {
        // Its own block stays for a later rewind, unless the prompt parts from it within.
        if (!is_own || own < std::min((b + 1) * page_lines, lines)) found.claims[i] = {};
        continue;
      }
      from_others = from_others || !is_own;
      ++found.held;
      found.idle += pool_.users(c.frame) == 0 ? 1 : 0;
      if ((b + 1) * page_lines > lines && (pool_.holders(c.frame) + (is_own ? 0 : 1) > 1 || pool_.cached(c.frame)))
        ++found.copies;
    }
    if (from_others) found.shared += std::min(page_lines, lines - b * page_lines);
  }
  if (s != nullptr)
    for (std::size_t i = 0; i < s->frames.size(); ++i) {
      const frame_claim& c = s->frames[i].claim;
      if (!pool_.valid(c) || (i < found.claims.size() && found.claims[i] == c)) continue;
      found.surplus += pool_.holders(c.frame) == 1 && !pool_.cached(c.frame) && pool_.users(c.frame) == 0 ? 1 : 0;
    }
  return found;
}

std::int32_t sequence_table::donated(const tenant_account& tenant, const sequence* s, std::span<const token_id> tokens,
                                     const rotation& rotate) const {
  const sequence* from = s == nullptr || s->donor == 0 ? nullptr : find(s->donor);
  if (from == nullptr || from->tenant != &tenant || from->importing) return 0;
  const auto known = static_cast<std::int32_t>(std::min(from->tokens.size(), tokens.size()));
  const std::int32_t lines =
      common_lines(agreeing(from->tokens, tokens, std::min(known, from->committed)), from->rotate, rotate);
  // All of them are copied, the ones that the next row does not see too: a slot that has wrapped lacks some.
  std::int32_t blocks = 0;
  while (blocks < blocks_for(lines) && page(*from, 0, blocks) != no_page) ++blocks;
  return std::min(lines, blocks * page_lines);
}

reuse sequence_table::find_dense(const tenant_account& tenant, const sequence* s, std::span<const token_id> tokens,
                                 std::int32_t own, std::span<const block_hash> chain, const rotation& rotate) const {
  const std::int32_t tables = geometry_.tables();
  const auto most = static_cast<std::int32_t>(tokens.size()) - 1;
  reuse found;
  if (s == nullptr || claim_of(*s, 0, 0).frame == no_frame) {
    own = 0;
  } else {
    found.held = 1;
    found.idle = pool_.users(s->frames.front().claim.frame) == 0 ? 1 : 0;
    if (!slot_has(*s, own, rotate)) own = std::min(own, s->rotate.keep * page_lines);
    if (!slot_has(*s, own, rotate)) own = 0;
  }

  std::int32_t known = 0;  // blocks in the index
  std::vector<page_id> pages;
  for (bool all = true; all && static_cast<std::size_t>(known) < chain.size(); known += all ? 1 : 0)
    for (std::int32_t t = 0; t < tables && all; ++t) {
      pages.push_back(index_.find(t, chain, static_cast<std::size_t>(known), tokens));
      all = pages.back() != no_page;
    }
  const std::int32_t donor = std::min(donated(tenant, s, tokens, rotate), most);
  found.lines = std::min(most, std::max({own, known * page_lines, donor}));
  // Sources are blocks from the first on, so they serve a row that sees them all.
  if (found.lines > own && rotate.ring > 0 && blocks_for(found.lines) > plain_blocks(rotate)) found.lines = own;
  found.shared = found.lines - std::min(own, found.lines);
  if (found.shared == 0) return found;
  for (std::int32_t b = own / page_lines; b < blocks_for(found.lines); ++b)
    for (std::int32_t t = 0; t < tables; ++t) {
      const page_id p = b < known ? pages[static_cast<std::size_t>(b * tables + t)] : page(*find(s->donor), t, b);
      found.sources.push_back({.block = b,
                               .table = t,
                               .lines = std::min(page_lines, found.lines - b * page_lines),
                               .page = p,
                               .claim = pool_.claim(p / geometry_.frame_pages())});
    }
  return found;
}

}  // namespace kvern::gpu
