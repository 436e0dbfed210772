#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "gpu/engine/step_cost.hpp"

namespace kvern::gpu {

/// A turn as the scheduler sees it. Prompt and answer are alike: tokens known, and of them those with lines.
struct turn_view {
  std::uint64_t order = 0;    ///< of submission, over all tenants
  std::int32_t known = 0;     ///< tokens of prompt and answer so far; more than `computed`
  std::int32_t computed = 0;  ///< of them with lines, after the rewind that its start makes
  std::int32_t pages = 0;     ///< in use for these lines, or, when not running, once it starts
  std::int32_t idle = 0;      ///< of them, in use by nobody yet. 0 when running
  std::int32_t surplus = 0;   ///< further idle pages of its sequence, which its start frees. 0 when running
  std::int32_t copies = 0;    ///< pages to take before its first row, to copy shared ones into
  std::int32_t lines = 0;     ///< that its pages give it room for, from position 0 on
  std::int32_t need = 0;      ///< pages it must hold to have computed all it knows and one token more
  std::int32_t goal = 0;      ///< the same with a page of answer
  std::int32_t alone = 0;     ///< of `pages`, in use by no other turn: preempting it makes them idle
  std::int32_t most_rows = std::numeric_limits<std::int32_t>::max();  ///< in one step
  bool running = false;
  bool generating = false;  ///< its first token is out
  bool settled = true;      ///< may be preempted: never was, or has computed `preemption_gap` tokens more since
};

struct tenant_view {
  double weight = 1;
  double service = 0;                 ///< rows computed, divided by weight
  std::int32_t pages = 0;             ///< that hold its lines, those in several sequences once
  std::int32_t idle_pages = 0;        ///< of them, in use by no running turn
  std::vector<turn_view> turns = {};  ///< ascending order; of those not running the first few suffice
};

/// Pages are whatever is allocated at once: pages of the cache, or slots of a whole context.
struct scheduler_state {
  std::vector<tenant_view> tenants;
  std::int32_t free_pages = 0;
  std::int32_t total_pages = 0;
  std::int32_t step_pages = 1;   ///< a sequence takes so many pages at once
  std::int32_t step_lines = 32;  ///< and gets room for so many lines
  key_count keys = {};           ///< that rows see
};

struct step_budget {
  std::int32_t max_rows = 0;                                            ///< of all kinds; at least max_running
  std::int32_t max_chunk = 0;                                           ///< prompt rows
  std::int32_t prompt_rows = std::numeric_limits<std::int32_t>::max();  ///< the same beside decode rows
  std::int32_t max_running = 0;
  step_cost cost = {};
  double max_ms = std::numeric_limits<double>::infinity();         ///< of a step with decode rows, by `cost`
  double max_prompt_ms = std::numeric_limits<double>::infinity();  ///< of a step without
};

/// Indices into scheduler_state.
struct turn_ref {
  std::int32_t tenant = 0;
  std::int32_t turn = 0;
  friend bool operator==(const turn_ref&, const turn_ref&) = default;
};

struct planned_rows {
  turn_ref of;
  std::int32_t rows = 0;   ///< its next tokens, from `computed` on
  std::int32_t pages = 0;  ///< to allocate
};

/// To be carried out in this order: preempt, start, evict, allocate, compute.
struct step_plan {
  std::vector<turn_ref> preempted;      ///< stop running; their pages become idle
  std::vector<turn_ref> started;        ///< begin, or begin again
  std::vector<std::int32_t> evictions;  ///< [tenants] idle pages to free
  std::vector<planned_rows> rows;
};

/// Chooses the next step. Pure: equal arguments, equal plans. Linear in turns and pages of the step.
///
/// - Every running turn that generates gets its row first, the oldest before others.
/// - The rest goes to prompts, as many rows as the step's time allows; where decode rows alone take it up, a quarter of
///   theirs. The tenant with the least service first, within a tenant in order. Running turns go on; a waiting one
///   starts when there is room for its whole prompt, or nothing runs.
/// - Slots: with all `max_running` taken, a tenant below its share of them gets the newest of the tenant furthest
///   above, once that one is `slot_quantum` rows of service ahead.
/// - Pages: free ones, then idle ones of the tenant furthest over its share, then those of running turns: a tenant
///   within its share takes from one that is not; else the older turn from the newer. The victim is the newest turn of
///   the tenant furthest over its share. A turn that gets none waits, and keeps what it has.
/// - A turn that was preempted is left alone until it has gained `preemption_gap` tokens on what it had computed, so
///   that two turns never undo each other's work for ever.
/// - While any turn exists, the plan has a row: the oldest running turn takes from all others if nobody else gets one.
step_plan schedule(const scheduler_state& state, const step_budget& budget);

/// Charges a plan's rows to the tenants' service.
void update(scheduler_state& state, const step_plan& plan);

/// The least service among tenants with turns: where a tenant that returns from idle starts. `fallback` when there is
/// none.
double least_service(const scheduler_state& state, double fallback);

/// A tenant's share of the pages, rounded up: by weight, over all tenants that hold pages or have turns.
std::int32_t page_share(const scheduler_state& state, std::size_t tenant);

inline constexpr double slot_quantum = 64;
inline constexpr std::int32_t preemption_gap = 64;

/// A turn that waits for pages while its tenant is so many rows of service behind another's keeps that other tenant
/// from starting turns and from taking pages: large turns are not passed over for ever.
inline constexpr double patience = 4096;

}  // namespace kvern::gpu
