#include "gpu/engine/planner.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "gpu/backend.hpp"

namespace kvern::gpu {

planner::planner(const scheduler_state& state, const step_budget& budget)
    : state_(state), budget_(budget), free_(state.free_pages) {
  tenants_.reserve(state.tenants.size());
  double weights = 0;
  for (const tenant_view& t : state.tenants)
    if (!t.turns.empty()) weights += t.weight;
  for (std::size_t i = 0; i < state.tenants.size(); ++i) {
    const tenant_view& t = state.tenants[i];
    tenant_work w{.weight = t.weight, .service = t.service, .pages = t.pages, .idle_pages = t.idle_pages};
    w.share = page_share(state, i);
    w.slots = t.turns.empty() ? 0 : budget.max_running * (t.weight / weights);
    idle_ += t.idle_pages;
    first_.push_back(turns_.size());
    for (std::size_t j = 0; j < t.turns.size(); ++j) {
      const turn_view& v = t.turns[j];
      turns_.push_back(
          {.ref = {static_cast<std::int32_t>(i), static_cast<std::int32_t>(j)}, .view = &v, .running = v.running});
      w.running += v.running ? 1 : 0;
    }
    running_ += w.running;
    tenants_.push_back(w);
  }
  for (turn_work& t : turns_)
    if (t.running) by_order_.push_back(&t);
  std::sort(by_order_.begin(), by_order_.end(),
            [](const auto* a, const auto* b) { return a->view->order < b->view->order; });
  plan_.evictions.assign(state.tenants.size(), 0);
}

planner::turn_work& planner::work(turn_ref r) {
  return turns_[first_[static_cast<std::size_t>(r.tenant)] + static_cast<std::size_t>(r.turn)];
}

void planner::plan_decode_rows() {
  for (turn_work* t : by_order_)
    if (t->running && t->view->generating && t->view->known - t->view->computed == 1) plan_rows(*t, 1, false);
}

void planner::plan_prompt_rows() {
  const double decoding_ms = budget_.cost.of(load_);
  const double budget_ms = rows_ > 0 ? budget_.max_ms : budget_.max_prompt_ms;
  const double end_ms = decoding_ms < budget_ms ? budget_ms : decoding_ms * 5 / 4;
  const std::int32_t most = rows_ > 0 ? std::min(budget_.max_chunk, budget_.prompt_rows) : budget_.max_chunk;
  std::int32_t left = std::min(most, budget_.max_rows - rows_);
  bool first = true;  // has a row whatever it costs: prompts never starve
  while (left > 0) {
    turn_work* best = nullptr;
    for (std::size_t i = 0; i < tenants_.size(); ++i) {
      turn_work* t = candidate(i);
      if (t != nullptr && (best == nullptr || tenants_[i].service < tenant(best->ref).service)) best = t;
    }
    if (best == nullptr) return;
    const turn_view& v = *best->view;
    const std::int32_t fit = budget_.cost.rows_within(state_.keys, v.computed, std::min(left, v.known - v.computed),
                                                      end_ms - budget_.cost.of(load_), v.known - 1);
    if (fit == 0 && !first) return;
    ++tenant(best->ref).cursor;
    if (!best->running) {
      if (!may_start(*best)) {
        tenant(best->ref).waits = true;
        continue;
      }
      start(*best);
    }
    const std::int32_t rows = plan_rows(*best, std::max(fit, 1), false);
    left -= rows;
    first = first && rows == 0;
  }
}

planner::turn_work* planner::candidate(std::size_t i) {
  tenant_work& t = tenants_[i];
  const std::size_t count = state_.tenants[i].turns.size();
  for (; t.cursor < count; ++t.cursor) {
    turn_work& w = turns_[first_[i] + t.cursor];
    if (w.planned >= 0 || w.preempted) continue;
    const bool decodes = w.view->generating && w.view->known - w.view->computed == 1;
    if (w.running ? !decodes : !t.waits) return &w;
  }
  return nullptr;
}

bool planner::may_start(turn_work& t) {
  // This plan may have evicted its pages: then it starts in the next step, which sees what is left.
  if (tenant(t.ref).idle_pages < t.view->idle + t.view->surplus) return false;
  // What it shares with turns that this plan preempts is counted as idle there.
  if (t.view->pages > t.view->idle && !plan_.preempted.empty()) return false;
  // A turn that waits for pages holds the rest back once its tenant is far behind.
  for (const tenant_work& other : tenants_)
    if (other.waits_for_pages && other.service + patience < tenant(t.ref).service) return false;
  if (!has_room(t)) {
    tenant(t.ref).waits_for_pages = true;
    return false;
  }
  return running_ < budget_.max_running || take_slot(t);
}

bool planner::has_room(const turn_work& t) {
  if (running_ == 0) return true;
  const tenant_work& mine = tenant(t.ref);
  const turn_view& v = *t.view;
  const std::int32_t need = v.need - v.pages + v.copies;
  std::int32_t room = free_ + idle_ - v.idle;
  // What running turns still need for their prompts and a page of answer, or a start would soon preempt one of them.
  for (const turn_work& other : turns_) {
    if (!other.running) continue;
    const std::int32_t planned = other.planned < 0 ? 0 : plan_.rows[static_cast<std::size_t>(other.planned)].pages;
    room -= std::max(0, other.view->goal - other.view->pages - planned);
  }
  if (mine.pages - v.surplus + need <= mine.share)
    for (const turn_work& other : turns_)
      if (other.running && may_take(t, other)) room += other.view->alone;
  return need <= room;
}

bool planner::take_slot(turn_work& t) {
  const tenant_work& mine = tenant(t.ref);
  if (mine.running >= mine.slots) return false;
  turn_work* victim = nullptr;
  const auto excess = [&](const turn_work& w) { return tenant(w.ref).running - tenant(w.ref).slots; };
  for (turn_work* w : by_order_) {
    if (!w->running || !w->view->settled || w->ref.tenant == t.ref.tenant) continue;
    if (excess(*w) <= 0 || tenant(w->ref).service <= mine.service + slot_quantum) continue;
    if (victim == nullptr || excess(*w) >= excess(*victim)) victim = w;
  }
  if (victim == nullptr) return false;
  preempt(*victim);
  return true;
}

void planner::start(turn_work& t) {
  tenant_work& mine = tenant(t.ref);
  t.running = true;
  t.started = true;
  sharing_started_ = sharing_started_ || t.view->pages > t.view->idle;
  ++mine.running;
  ++running_;
  mine.idle_pages -= t.view->idle + t.view->surplus;
  idle_ -= t.view->idle + t.view->surplus;
  mine.pages -= t.view->surplus;
  free_ += t.view->surplus;
  plan_.started.push_back(t.ref);
}

std::int32_t planner::plan_rows(turn_work& t, std::int32_t rows, bool forced) {
  const turn_view& v = *t.view;
  rows = std::min({rows, v.known - v.computed, v.most_rows});
  // Room comes in whole steps, behind the copies.
  const auto steps = [&](std::int32_t lines) {
    return lines <= v.lines ? 0 : (lines - v.lines + state_.step_lines - 1) / state_.step_lines;
  };
  const std::int32_t taken = take_pages(t, v.copies + steps(v.computed + rows) * state_.step_pages, forced);
  const std::int32_t got = taken < v.copies ? 0 : (taken - v.copies) / state_.step_pages;
  rows = taken < v.copies ? 0 : std::min(rows, v.lines + got * state_.step_lines - v.computed);
  const std::int32_t pages = rows > 0 ? v.copies + steps(v.computed + rows) * state_.step_pages : 0;
  free_ += taken - pages;
  tenant(t.ref).pages -= taken - pages;
  if (rows <= 0) return 0;
  t.planned = static_cast<std::int32_t>(plan_.rows.size());
  plan_.rows.push_back({t.ref, rows, pages});
  rows_ += rows;
  load_.add(state_.keys, v.computed, rows, v.known - 1);
  tenant(t.ref).service += rows / tenant(t.ref).weight;
  return rows;
}

std::int32_t planner::take_pages(turn_work& t, std::int32_t count, bool forced) {
  std::int32_t taken = 0;
  while (taken < count) {
    if (free_ == 0 && !evict_page() && !take_from_running(t, forced)) break;
    if (free_ == 0) continue;
    --free_;
    ++tenant(t.ref).pages;
    ++taken;
  }
  return taken;
}

bool planner::evict_page() {
  if (idle_ == 0) return false;
  std::size_t from = tenants_.size();
  for (std::size_t i = 0; i < tenants_.size(); ++i) {
    if (tenants_[i].idle_pages == 0) continue;
    if (from == tenants_.size() || tenants_[i].pages - tenants_[i].share > tenants_[from].pages - tenants_[from].share)
      from = i;
  }
  --tenants_[from].idle_pages;
  --tenants_[from].pages;
  --idle_;
  ++free_;
  ++plan_.evictions[from];
  return true;
}

bool planner::may_take(const turn_work& t, const turn_work& victim) {
  if (&t == &victim || victim.started || victim.view->pages == 0 || !victim.view->settled) return false;
  const tenant_work& mine = tenant(t.ref);
  const tenant_work& theirs = tenant(victim.ref);
  if (t.ref.tenant != victim.ref.tenant && mine.service > theirs.service + patience) return false;
  const bool i_am_over = mine.pages + 1 > mine.share;
  const bool they_are_over = theirs.pages >= theirs.share;
  if (t.ref.tenant != victim.ref.tenant && i_am_over != they_are_over) return they_are_over;
  return t.view->order < victim.view->order;
}

bool planner::take_from_running(const turn_work& t, bool forced) {
  // A turn started by this plan may use pages of the victim: they would not become idle.
  if (sharing_started_) return false;
  const auto excess = [&](const turn_work& w) { return tenant(w.ref).pages - tenant(w.ref).share; };
  turn_work* victim = nullptr;
  for (turn_work* w : by_order_) {
    if (!w->running || w == &t || w->view->pages == 0) continue;
    if (!forced && !may_take(t, *w)) continue;
    if (victim == nullptr || excess(*w) >= excess(*victim)) victim = w;
  }
  if (victim == nullptr) return false;
  preempt(*victim);
  return true;
}

void planner::preempt(turn_work& t) {
  tenant_work& theirs = tenant(t.ref);
  t.running = false;
  t.preempted = true;
  --theirs.running;
  --running_;
  if (t.planned >= 0) {
    planned_rows& r = plan_.rows[static_cast<std::size_t>(t.planned)];
    free_ += r.pages;
    theirs.pages -= r.pages;
    theirs.service -= r.rows / theirs.weight;
    rows_ -= r.rows;
    r.rows = 0;
    r.pages = 0;
  }
  const std::int32_t idle = sharing_started_ ? 0 : t.view->alone;
  theirs.idle_pages += idle;
  idle_ += idle;
  plan_.preempted.push_back(t.ref);
}

void planner::ensure_progress() {
  if (rows_ > 0) return;
  turn_work* oldest = nullptr;
  for (turn_work& t : turns_)
    if (t.running && (oldest == nullptr || t.view->order < oldest->view->order)) oldest = &t;
  if (oldest == nullptr) return;
  const turn_view& v = *oldest->view;
  const std::int32_t most = std::min({budget_.max_chunk, budget_.max_rows, v.known - v.computed});
  const std::int32_t fit =
      budget_.cost.rows_within(state_.keys, v.computed, most, budget_.max_prompt_ms - budget_.cost.fixed, v.known - 1);
  plan_rows(*oldest, std::max(fit, 1), true);
}

step_plan planner::finish() && {
  std::erase_if(plan_.rows, [](const planned_rows& r) { return r.rows == 0; });
  return std::move(plan_);
}

}  // namespace kvern::gpu
