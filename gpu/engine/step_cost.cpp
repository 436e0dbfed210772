#include "gpu/engine/step_cost.hpp"

#include <algorithm>

namespace kvern::gpu {

double key_count::of(std::int32_t position) const {
  double sum = 0;
  for (const std::int32_t reach : reach_) sum += std::min(position + 1, reach);
  return reach_.empty() ? 0 : sum / static_cast<double>(reach_.size());
}

double key_count::below(std::int32_t end) const {
  double sum = 0;
  for (const std::int32_t reach : reach_) {
    const double growing = std::min(end, reach);
    sum += growing * (growing + 1) / 2 + (end - growing) * reach;
  }
  return reach_.empty() ? 0 : sum / static_cast<double>(reach_.size());
}

void step_load::add(const key_count& keys, std::int32_t first, std::int32_t count, std::int32_t logits_from) {
  if (count <= 0) return;
  rows += count;
  reads += keys.of(first + count - 1);
  pairs += keys.below(first + count) - keys.below(first);
  heads += std::max(0, first + count - std::max(first, logits_from));
}

double step_cost::of(const step_load& load) const {
  return fixed + per_row * load.rows + per_read * load.reads + per_pair * load.pairs + per_head * load.heads;
}

std::int32_t step_cost::rows_within(const key_count& keys, std::int32_t first, std::int32_t most, double ms,
                                    std::int32_t logits_from) const {
  std::int32_t fit = 0;
  for (std::int32_t too_many = most + 1; too_many - fit > 1;) {
    const std::int32_t middle = fit + (too_many - fit) / 2;
    step_load load;
    load.add(keys, first, middle, logits_from);
    (more(load) <= ms ? fit : too_many) = middle;
  }
  return fit;
}

}  // namespace kvern::gpu
