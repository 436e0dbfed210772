#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/token.hpp"
#include "gpu/engine/page_allocator.hpp"
#include "gpu/engine/turn.hpp"

namespace kvern::gpu {

struct turn_record;
struct sequence;

/// What the engine keeps of a tenant while it has a turn or a sequence.
struct tenant_account {
  std::string name;
  domain_id domain = 0;
  double weight = 1;
  double service = 0;  ///< rows computed for it, divided by its weight
  std::int32_t sequences = 0;
  std::int32_t waiting = 0;     ///< turns not running
  std::int32_t pages = 0;       ///< of all its sequences
  std::int32_t idle_pages = 0;  ///< of them, of sequences without a running turn: these may be evicted
  std::map<std::uint64_t, turn_record*> turns = {};  ///< by order of submission
  /// Sequences that hold idle pages, in order of eviction: those no turn waits for first, then the least recently used.
  std::map<std::pair<bool, std::uint64_t>, sequence*> idle = {};
};

/// Tokens, and the pages of those that have lines: `pages[p / page_lines]` holds position p < committed. Between steps
/// it holds exactly the pages its committed lines need.
struct sequence {
  sequence_id id = 0;
  tenant_account* tenant = nullptr;
  turn_record* turn = nullptr;
  std::vector<token_id> tokens;  ///< at least `committed`
  std::vector<page_id> pages;
  std::int32_t committed = 0;
  bool running = false;
  std::pair<bool, std::uint64_t> idle_key;  ///< its place in tenant_account::idle, when there
  bool in_idle = false;
};

/// Pages that `lines` lines need.
constexpr std::int32_t pages_for(std::int32_t lines) { return (lines + page_lines - 1) / page_lines; }

/// All sequences and the pages they hold; keeps the accounts' page counts. Not thread-safe. Pointers to sequences are
/// valid until `erase`.
class sequence_table {
 public:
  explicit sequence_table(std::int32_t pages) : allocator_(pages) {}

  sequence* find(sequence_id id);
  sequence& create(sequence_id id, tenant_account& tenant);
  /// Frees its pages and forgets it.
  void erase(sequence& s);

  /// Its pages cannot be evicted until `set_idle`.
  void set_running(sequence& s);
  /// Its pages may be evicted, later when a turn waits for it. Counts as a use.
  void set_idle(sequence& s, bool awaited);

  /// Drops the lines from `length` on, their tokens too, and the pages that hold none of the rest.
  void rewind(sequence& s, std::int32_t length);

  /// Adds `count` pages; those to clear go to `dirty`. False when fewer are free; then nothing changes.
  bool extend(sequence& s, std::int32_t count, std::vector<page_id>& dirty);

  /// Gives back the pages beyond its committed lines.
  void trim(sequence& s);

  /// Frees up to `count` idle pages of a tenant, each sequence from its tail. Returns how many.
  std::int32_t evict(tenant_account& tenant, std::int32_t count);

  void distrust(std::span<const page_id> pages) { allocator_.distrust(pages); }

  std::int32_t size() const { return static_cast<std::int32_t>(sequences_.size()); }
  std::int32_t free_pages() const { return allocator_.free_pages(); }
  std::int32_t total_pages() const { return allocator_.total(); }
  const std::unordered_map<sequence_id, sequence>& all() const { return sequences_; }

 private:
  void leave_idle(sequence& s);
  void give_back(sequence& s, std::int32_t keep);

  page_allocator allocator_;
  std::unordered_map<sequence_id, sequence> sequences_;
  std::uint64_t uses_ = 0;
};

}  // namespace kvern::gpu
