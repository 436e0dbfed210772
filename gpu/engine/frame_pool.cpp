#include "gpu/engine/frame_pool.hpp"

#include <algorithm>
#include <map>

namespace kvern::gpu {

frame_pool::frame_pool(std::int32_t frames) : frames_(static_cast<std::size_t>(frames)) {
  free_.reserve(frames_.size());
  for (frame_id f = frames; f-- > 0;) free_.push_back(f);
}

frame_claim frame_pool::allocate(frame_account& account) {
  if (free_.empty()) return {};
  const frame_id id = free_.back();
  free_.pop_back();
  state& f = at(id);
  f.account = &account;
  f.holders = 1;
  f.users = 1;
  ++account.frames;
  return {id, f.generation};
}

void frame_pool::enter_idle(frame_id id, idle_rank rank) {
  state& f = at(id);
  f.rank = rank;
  frame_account::list& list = list_of(f);
  f.before = list.last;
  f.after = no_frame;
  (list.last == no_frame ? list.first : at(list.last).after) = id;
  list.last = id;
  ++f.account->idle;
  ++idle_;
}

void frame_pool::leave_idle(frame_id id) {
  state& f = at(id);
  frame_account::list& list = list_of(f);
  (f.before == no_frame ? list.first : at(f.before).after) = f.after;
  (f.after == no_frame ? list.last : at(f.after).before) = f.before;
  --f.account->idle;
  --idle_;
}

// Of a frame in no list: it becomes free, and claims on it stale.
void frame_pool::release(frame_id id) {
  state& f = at(id);
  --f.account->frames;
  f.account = nullptr;
  f.holders = 0;
  f.cached = false;
  ++f.generation;
  free_.push_back(id);
}

void frame_pool::hold(const frame_claim& c) {
  if (++at(c.frame).holders == 2) ++shared_;
}

void frame_pool::drop(const frame_claim& c) {
  state& f = at(c.frame);
  if (--f.holders == 1) --shared_;
  if (f.holders > 0 || f.users > 0 || f.cached) return;
  leave_idle(c.frame);
  release(c.frame);
}

void frame_pool::use(const frame_claim& c) {
  if (at(c.frame).users++ == 0) leave_idle(c.frame);
}

void frame_pool::stop_using(const frame_claim& c, idle_rank rank) {
  if (--at(c.frame).users == 0) enter_idle(c.frame, rank);
}

void frame_pool::set_rank(const frame_claim& c, idle_rank rank) {
  if (at(c.frame).users > 0) return;
  leave_idle(c.frame);
  enter_idle(c.frame, rank);
}

void frame_pool::set_cached(const frame_claim& c, bool cached) {
  state& f = at(c.frame);
  f.cached = cached;
  if (cached || f.holders > 0 || f.users > 0) return;
  leave_idle(c.frame);
  release(c.frame);
}

frame_claim frame_pool::seize(const frame_claim& c) {
  state& f = at(c.frame);
  if (f.holders > 1) --shared_;
  f.holders = 1;
  f.cached = false;
  return {c.frame, ++f.generation};
}

frame_id frame_pool::next_to_evict(const frame_account& account) const {
  for (const frame_account::list& list : account.idle_)
    if (list.first != no_frame) return list.first;
  return no_frame;
}

void frame_pool::evict(frame_id id) {
  if (at(id).holders > 1) --shared_;
  leave_idle(id);
  release(id);
}

bool frame_pool::consistent() const {
  std::map<const frame_account*, frame_account> counted;
  std::int32_t shared = 0;
  std::size_t free = 0;
  for (const state& f : frames_) {
    if (f.account == nullptr) {
      ++free;
      if (f.holders != 0 || f.users != 0 || f.cached) return false;
      continue;
    }
    if (f.users > f.holders || f.holders < 0 || f.users < 0) return false;
    if (f.holders == 0 && !f.cached) return false;
    frame_account& c = counted[f.account];
    ++c.frames;
    c.idle += f.users == 0 ? 1 : 0;
    shared += f.holders > 1 ? 1 : 0;
  }
  for (const auto& [account, c] : counted) {
    std::int32_t listed = 0;
    for (const frame_account::list& list : account->idle_)
      for (frame_id f = list.first; f != no_frame; f = frames_[index(f)].after) ++listed;
    if (account->frames != c.frames || account->idle != c.idle || listed != c.idle) return false;
  }
  return shared == shared_ && free == free_.size() &&
         std::all_of(free_.begin(), free_.end(), [this](frame_id f) { return is_free(f); });
}

}  // namespace kvern::gpu
