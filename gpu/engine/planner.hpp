#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/engine/scheduler.hpp"

namespace kvern::gpu {

/// The working state of one `schedule` call: what free pages, slots and service will be once the plan so far is done.
class planner {
 public:
  planner(const scheduler_state& state, const step_budget& budget);

  void plan_decode_rows();
  void plan_prompt_rows();
  /// Gives the oldest turn a row when nobody got one.
  void ensure_progress();
  step_plan finish() &&;

 private:
  struct tenant_work {
    double weight = 1;
    double service = 0;
    std::int32_t pages = 0;
    std::int32_t idle_pages = 0;
    std::int32_t share = 0;  ///< of pages
    double slots = 0;        ///< share of max_running
    std::int32_t running = 0;
    std::size_t cursor = 0;  ///< its next turn to consider for prompt rows
    bool waits = false;      ///< its first waiting turn cannot start in this step
    bool waits_for_pages = false;
  };
  struct turn_work {
    turn_ref ref;
    const turn_view* view = nullptr;
    bool running = false;
    bool started = false;       ///< by this plan: not preempted by it
    bool preempted = false;     ///< by this plan: not started by it
    std::int32_t planned = -1;  ///< index into plan_.rows
  };

  turn_work& work(turn_ref r);
  tenant_work& tenant(turn_ref r) { return tenants_[static_cast<std::size_t>(r.tenant)]; }

  /// The next turn of a tenant that can have prompt rows, or null; moves its cursor.
  turn_work* candidate(std::size_t t);
  bool may_start(turn_work& t);
  bool take_slot(turn_work& t);
  bool has_room(const turn_work& t);
  void start(turn_work& t);

  /// Plans up to `rows` rows of a running turn; returns how many. `forced`: pages may come from any other turn.
  std::int32_t plan_rows(turn_work& t, std::int32_t rows, bool forced);
  std::int32_t take_pages(turn_work& t, std::int32_t count, bool forced);
  bool evict_page();
  bool take_from_running(const turn_work& t, bool forced);
  bool may_take(const turn_work& t, const turn_work& victim);
  void preempt(turn_work& t);

  const scheduler_state& state_;
  const step_budget& budget_;
  std::vector<tenant_work> tenants_;
  std::vector<turn_work> turns_;      ///< of all tenants, one after the other
  std::vector<std::size_t> first_;    ///< [tenants] of its turns in turns_
  std::vector<turn_work*> by_order_;  ///< running at the start of the step, oldest first
  std::int32_t free_ = 0;
  std::int32_t idle_ = 0;
  std::int32_t running_ = 0;
  std::int32_t rows_ = 0;         ///< planned
  step_load load_ = {};           ///< planned, those of turns that were preempted later included
  bool sharing_started_ = false;  ///< a turn was started that uses pages of running turns
  step_plan plan_;
};

}  // namespace kvern::gpu
