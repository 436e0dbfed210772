#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/token.hpp"
#include "gpu/backend.hpp"

namespace kvern::gpu {

/// Names a full block of tokens together with everything before it.
struct block_hash {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  friend bool operator==(const block_hash&, const block_hash&) = default;
};

/// The key of one cache domain's hashes.
using domain_secret = std::array<std::byte, 192>;

/// Drawn at random: what a process makes its domains' secrets from.
domain_secret make_secret();
/// The secret of the domain of this value (see encode_domain): nobody who does not know `root` can make hashes that
/// meet its own.
domain_secret derive_secret(const domain_secret& root, std::string_view domain);

/// Hashes of the full blocks of `tokens`: XXH3-128 of the block's tokens and the hash of the block before, under the
/// domain's secret.
std::vector<block_hash> hash_blocks(std::span<const token_id> tokens, const domain_secret& secret);

/// Which page holds a block of a known prefix. One entry a page and a page an entry. A hit counts only when the block's
/// tokens and the hash of the block before are those of the entry, the domain's secret being part of both hashes.
/// Not thread-safe.
class prefix_index {
 public:
  explicit prefix_index(std::int32_t pages);

  /// The block of `chain` at `block`, in page table `table`; `tokens` are the sequence's. no_page when none is known.
  page_id find(std::int32_t table, std::span<const block_hash> chain, std::size_t block,
               std::span<const token_id> tokens) const;

  /// Adds a page that has no entry; its lines must be committed. False when `find` would give another page, or another
  /// block has the same hash: then nothing changes.
  bool add(page_id page, std::int32_t table, std::span<const block_hash> chain, std::size_t block,
           std::span<const token_id> tokens);

  bool has(page_id page) const { return entries_[static_cast<std::size_t>(page)].table >= 0; }
  /// Forgets a page; it may have no entry.
  void remove(page_id page);

  std::size_t size() const { return pages_.size(); }

 private:
  struct key {
    block_hash hash;
    std::int32_t table = 0;
    friend bool operator==(const key&, const key&) = default;
  };
  struct key_hash {
    std::size_t operator()(const key& k) const { return k.hash.low ^ static_cast<std::size_t>(k.table); }
  };
  struct entry {
    block_hash hash;
    block_hash parent;
    std::int32_t table = -1;  // -1: none
    std::array<token_id, page_lines> tokens;
  };

  std::vector<entry> entries_;  // [page]
  std::unordered_map<key, page_id, key_hash> pages_;
};

}  // namespace kvern::gpu
