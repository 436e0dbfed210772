#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "gpu/backend.hpp"

namespace kvern::gpu {

/// What is allocated, kept and evicted at once: a page (paged layout), or the dense run of pages of one sequence (left
/// and ring).
using frame_id = std::int32_t;
inline constexpr frame_id no_frame = -1;

/// A table's word for a frame. It names the frame for as long as nobody evicted it: a claim of an earlier generation is
/// stale, and its holder has lost the lines.
struct frame_claim {
  frame_id frame = no_frame;
  std::uint32_t generation = 0;

  friend bool operator==(const frame_claim&, const frame_claim&) = default;
};

/// Frames of one tenant: how many hold lines, and those of them that nobody uses, in order of eviction.
struct frame_account {
  std::int32_t frames = 0;
  std::int32_t idle = 0;

 private:
  friend class frame_pool;
  struct list {
    frame_id first = no_frame;
    frame_id last = no_frame;
  };
  std::array<list, 3> idle_;  // by idle_rank, each the least recently used first
};

/// Which idle frames go first.
enum class idle_rank : std::uint8_t {
  out_of_window,  ///< no row of its sequence will see it again, unless it is rewound
  unused,
  awaited,  ///< a turn waits for it
};

/// Who holds and who uses each frame. A frame is
///   free    nobody holds it and no cached prefix names it,
///   idle    held by sequences without a running turn, or cached: may be evicted,
///   in use  by running turns: never evicted.
/// Counts are exact; all operations take constant time. Owned by the engine; not thread-safe.
class frame_pool {
 public:
  explicit frame_pool(std::int32_t frames);

  std::int32_t total() const { return static_cast<std::int32_t>(frames_.size()); }
  std::int32_t free_frames() const { return static_cast<std::int32_t>(free_.size()); }
  std::int32_t idle_frames() const { return idle_; }
  /// Frames with more than one holder.
  std::int32_t shared() const { return shared_; }

  /// A free frame, held and used once by `account`'s tenant; a claim of no_frame when none is free.
  frame_claim allocate(frame_account& account);

  bool valid(const frame_claim& c) const {
    return c.frame != no_frame && frames_[index(c.frame)].generation == c.generation;
  }
  /// The claim that a new holder of a frame that is not free gets; the holder must `hold` it.
  frame_claim claim(frame_id frame) const { return {frame, frames_[index(frame)].generation}; }

  // For valid claims.
  void hold(const frame_claim& c);
  /// A holder less. Frees the frame when it was the last and no prefix is cached in it. Nobody uses it for this holder
  /// any more.
  void drop(const frame_claim& c);
  void use(const frame_claim& c);
  void stop_using(const frame_claim& c, idle_rank rank);
  /// Moves a frame to the end of another list; nothing happens to one in use.
  void set_rank(const frame_claim& c, idle_rank rank);
  /// A cached prefix names the frame, or (`cached` false) none does any more: then it may become free.
  void set_cached(const frame_claim& c, bool cached);

  std::int32_t holders(frame_id frame) const { return frames_[index(frame)].holders; }
  std::int32_t users(frame_id frame) const { return frames_[index(frame)].users; }
  idle_rank rank(frame_id frame) const { return frames_[index(frame)].rank; }
  bool cached(frame_id frame) const { return frames_[index(frame)].cached; }
  bool is_free(frame_id frame) const { return frames_[index(frame)].account == nullptr; }

  /// Makes the only user of a frame its only holder: other claims on it become stale, no prefix names it any more.
  frame_claim seize(const frame_claim& c);

  /// The next idle frame of a tenant to go, or no_frame.
  frame_id next_to_evict(const frame_account& account) const;
  /// Frees an idle frame: all claims on it become stale.
  void evict(frame_id frame);

  /// Whether counts, lists and free frames agree with one another; for tests.
  bool consistent() const;

 private:
  struct state {
    frame_account* account = nullptr;  // null: free
    std::uint32_t generation = 1;
    std::int32_t holders = 0;
    std::int32_t users = 0;
    idle_rank rank = idle_rank::unused;
    bool cached = false;
    frame_id before = no_frame;  // in its list of idle frames
    frame_id after = no_frame;
  };

  static std::size_t index(frame_id f) { return static_cast<std::size_t>(f); }
  state& at(frame_id f) { return frames_[index(f)]; }
  frame_account::list& list_of(const state& f) { return f.account->idle_[static_cast<std::size_t>(f.rank)]; }
  void enter_idle(frame_id id, idle_rank rank);
  void leave_idle(frame_id id);
  void release(frame_id id);

  std::vector<state> frames_;
  std::vector<frame_id> free_;  // the last is given first
  std::int32_t idle_ = 0;
  std::int32_t shared_ = 0;
};

}  // namespace kvern::gpu
