#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/token.hpp"
#include "gpu/engine/cache_geometry.hpp"
#include "gpu/engine/draft_policy.hpp"
#include "gpu/engine/frame_pool.hpp"
#include "gpu/engine/prefix_index.hpp"
#include "gpu/engine/turn.hpp"

namespace kvern::gpu {

struct turn_record;

/// Who may read what a page held: one tenant's time in the engine. Numbers begin at 1 and are never given twice.
using domain_id = std::uint64_t;

/// What the engine keeps of a tenant while it has a turn, a sequence or a cached page.
struct tenant_account {
  std::string name;
  domain_id domain = 0;
  domain_secret secret{};
  double weight = 1;
  double service = 0;  ///< rows computed for it, divided by its weight
  std::int32_t sequences = 0;
  std::int32_t waiting = 0;  ///< turns not running
  frame_account frames;
  std::map<std::uint64_t, turn_record*> turns = {};  ///< by order of submission
  std::optional<draft_record> drafts = {};           ///< of the last turn that ended, for the first of a sequence
};

/// A sequence's word for a frame, and whether its running turn keeps it from eviction.
struct held_frame {
  frame_claim claim;
  bool used = false;
};

/// Where a dense slot gets a block from that it does not have.
struct block_source {
  std::int32_t block = 0;
  std::int32_t table = 0;
  std::int32_t lines = 0;
  page_id page = no_page;
  frame_claim claim;  ///< of the frame the page is in
};

/// Tokens, and claims on the frames with their lines. Claims of an idle sequence go stale when others need the room.
struct sequence {
  sequence_id id = 0;
  tenant_account* tenant = nullptr;
  turn_record* turn = nullptr;
  std::vector<token_id> tokens;  ///< at least `committed`
  std::int32_t committed = 0;    ///< lines computed; where claims are stale they are gone
  rotation rotate = {};
  std::vector<held_frame> frames;  ///< paged: [block][table]; dense: the slot, or none
  std::int32_t blocks = 0;         ///< that have frames, or had
  std::int32_t in_use = 0;         ///< frames with `used`
  bool running = false;
  bool importing = false;
  /// Some of its lines came by import, or were computed on such: nobody can vouch for them, so they are not shared.
  bool unvouched = false;
  std::int32_t published = 0;          ///< blocks of its turn's prompt that the index has been told of
  std::int32_t trimmed = -1;           ///< the block of `committed` when claims were last trimmed
  sequence_id donor = 0;               ///< dense: the sequence it was forked from and has no lines of yet; 0: none
  std::vector<block_source> sources;   ///< dense: to be copied into its slot
  std::vector<std::int32_t> places;    ///< dense, once it has wrapped: [place in the slot] the block that lies there
  std::vector<std::int32_t> imported;  ///< dense, while importing: [block] its pages so far
  std::optional<draft_record> drafts;  ///< of its last turn, for the next
};

/// How much of a prompt needs no computing, and where that lies.
struct reuse {
  std::int32_t lines = 0;
  std::int32_t shared = 0;            ///< of them, in other sequences' frames or cached ones
  std::int32_t held = 0;              ///< frames it will use from the start
  std::int32_t idle = 0;              ///< of them, idle now
  std::int32_t surplus = 0;           ///< frames that its start frees
  std::int32_t copies = 0;            ///< frames to allocate for copies before its first line is written
  std::vector<frame_claim> claims;    ///< paged: [block][table] of the blocks with `lines`
  std::vector<block_source> sources;  ///< dense
};

/// All sequences, the frames they hold, and the index of prefixes. Not thread-safe. Pointers to sequences are valid
/// until `erase`.
class sequence_table {
 public:
  explicit sequence_table(const cache_geometry& geometry);

  const cache_geometry& geometry() const { return geometry_; }
  const frame_pool& pool() const { return pool_; }
  const prefix_index& index() const { return index_; }
  const std::unordered_map<sequence_id, sequence>& all() const { return sequences_; }
  std::int32_t size() const { return static_cast<std::int32_t>(sequences_.size()); }
  /// Changes whenever what a prompt would find, or who uses it, may have changed.
  std::uint64_t epoch() const { return epoch_; }

  sequence* find(sequence_id id);
  const sequence* find(sequence_id id) const;
  sequence& create(sequence_id id, tenant_account& tenant);
  /// Gives back its frames and forgets it.
  void erase(sequence& s);

  /// The page of a block whose lines are there; no_page where they are not.
  page_id page(const sequence& s, std::int32_t table, std::int32_t block) const;

  /// What of `tokens` need not be computed for a turn of `tenant` in `s` (null: a new sequence), of which `common`
  /// tokens agree with the sequence's. `chain` hashes the blocks that may come from the index. The last token always
  /// runs.
  reuse find_reuse(const tenant_account& tenant, const sequence* s, std::span<const token_id> tokens,
                   std::int32_t common, std::span<const block_hash> chain, const rotation& rotate) const;

  /// The sequence's turn runs, from what `find_reuse` found: `lines` are committed, their visible frames in use.
  void start(sequence& s, const reuse& found, const rotation& rotate);
  /// Its frames may be evicted.
  void stop(sequence& s, idle_rank rank);
  void set_rank(sequence& s, idle_rank rank);

  /// Frames that the running sequence's next row does not see any more become idle, or, when it rotates, free.
  void trim(sequence& s);
  /// Frames to allocate for copies before a line is written behind `committed`. A shared frame that no other turn uses
  /// is seized instead when there is no room for a copy at all.
  std::int32_t copies_before_write(const sequence& s) const;
  /// The longest prefix of its committed lines of which all that its next row sees is still there.
  std::int32_t lines_there(const sequence& s) const;
  /// Its frames that no other running turn uses.
  std::int32_t exclusive(const sequence& s) const;

  /// What is to be done to pages before they are written.
  struct preparation {
    std::vector<page_id> clear;     ///< held lines of another domain
    std::vector<page_copy> copies;  ///< afterwards
    /// Sequences with lines that are not there before this is done, and how many they have without it.
    std::vector<std::pair<sequence*, std::int32_t>> at_stake;
  };
  /// The preparation was not done: its sequences lose the lines at stake, its pages are to be cleared by whoever gets
  /// them next.
  void abandon(const preparation& todo);
  /// Up to `frames` frames for lines up to `end`; a shared frame behind `committed` is replaced by a copy, or, when
  /// they do not suffice for copies, seized. False when too few are free; then the sequence has part of them.
  bool extend(sequence& s, std::int32_t end, std::int32_t frames, preparation& todo);
  /// Tells the index of the full blocks before `lines`, or takes the page it knows in place of the sequence's own.
  void publish(sequence& s, std::span<const block_hash> chain, std::int32_t lines);

  /// Drops the lines and tokens from `length` on.
  void cut(sequence& s, std::int32_t length);
  /// Makes `to` with the first `length` tokens of `from` and the first `committed` of its lines, sharing their frames.
  void fork(const sequence& from, sequence& to, std::int32_t length, std::int32_t committed);

  /// Frees up to `count` idle frames of a tenant. Returns how many.
  std::int32_t evict(tenant_account& tenant, std::int32_t count);

  /// For import: a page for one block and table, in use until end_import; no_page when no frame is free, or when the
  /// block's place in a slot has been given to another.
  page_id import_page(sequence& s, std::int32_t table, std::int32_t block, std::vector<page_id>& clear);
  /// All pages of an import have been asked for: blocks that lack one are not there.
  void end_import(sequence& s);

 private:
  frame_claim claim_of(const sequence& s, std::int32_t table, std::int32_t block) const;
  held_frame& at(sequence& s, std::int32_t table, std::int32_t block);
  bool slot_has(const sequence& s, std::int32_t position, const rotation& rotate) const;
  bool is_shared(const frame_claim& c) const { return pool_.holders(c.frame) > 1 || pool_.cached(c.frame); }
  void drop(sequence& s, held_frame& f);
  void replace(sequence& s, held_frame& f, const frame_claim& by);
  bool write_alone(sequence& s, held_frame& tail, std::int32_t lines, bool copy, preparation& todo);
  void first_write(page_id page, domain_id domain, std::vector<page_id>& clear);
  void use_visible(sequence& s);
  void forget_pages(frame_id frame);
  bool extend_slot(sequence& s, std::int32_t end, preparation& todo);
  std::int32_t own_lines(const sequence* s, std::int32_t common, const rotation& rotate) const;
  reuse find_paged(const sequence* s, std::span<const token_id> tokens, std::int32_t own,
                   std::span<const block_hash> chain, const rotation& rotate) const;
  reuse find_dense(const tenant_account& tenant, const sequence* s, std::span<const token_id> tokens, std::int32_t own,
                   std::span<const block_hash> chain, const rotation& rotate) const;
  std::int32_t donated(const tenant_account& tenant, const sequence* s, std::span<const token_id> tokens,
                       const rotation& rotate) const;

  cache_geometry geometry_;
  frame_pool pool_;
  prefix_index index_;
  std::vector<domain_id> held_;  ///< [page] whose lines it holds; 0: nothing since start
  std::unordered_map<sequence_id, sequence> sequences_;
  std::uint64_t epoch_ = 1;
};

}  // namespace kvern::gpu
