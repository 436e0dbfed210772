#include "gpu/engine/scheduler.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "gpu/backend.hpp"
#include "gpu/engine/planner.hpp"

namespace kvern::gpu {

step_plan schedule(const scheduler_state& state, const step_budget& budget) {
  planner p(state, budget);
  p.plan_decode_rows();
  p.plan_prompt_rows();
  p.ensure_progress();
  return std::move(p).finish();
}

void update(scheduler_state& state, const step_plan& plan) {
  for (const planned_rows& r : plan.rows) {
    tenant_view& t = state.tenants[static_cast<std::size_t>(r.of.tenant)];
    t.service += r.rows / t.weight;
  }
}

double least_service(const scheduler_state& state, double fallback) {
  std::optional<double> least;
  for (const tenant_view& t : state.tenants)
    if (!t.turns.empty()) least = std::min(least.value_or(t.service), t.service);
  return least.value_or(fallback);
}

std::int32_t page_share(const scheduler_state& state, std::size_t tenant) {
  double weights = 0;
  for (const tenant_view& t : state.tenants)
    if (t.pages > 0 || !t.turns.empty()) weights += t.weight;
  if (weights <= 0) return state.total_pages;
  return static_cast<std::int32_t>(std::ceil(state.total_pages * (state.tenants[tenant].weight / weights)));
}

}  // namespace kvern::gpu
