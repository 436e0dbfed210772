#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace kvern::gpu {

/// How many keys attention reads for rows, as the mean over a model's layers.
class key_count {
 public:
  key_count() = default;
  /// `reach` is [layer group]: keys that a row sees at most, its own included.
  explicit key_count(std::vector<std::int32_t> reach) : reach_(std::move(reach)) {}

  /// Keys that the row at `position` sees.
  double of(std::int32_t position) const;
  /// Sum over all positions below `end`.
  double below(std::int32_t end) const;

 private:
  std::vector<std::int32_t> reach_;
};

/// The position of no row, for steps that want no logits.
inline constexpr std::int32_t no_logits = std::numeric_limits<std::int32_t>::max();

/// What the time of a step depends on.
struct step_load {
  double rows = 0;
  double reads = 0;  ///< keys read: of each sequence those that its last row sees
  double pairs = 0;  ///< keys seen, summed over rows
  double heads = 0;  ///< rows with logits

  /// Adds `count` rows of one sequence, from position `first` on; those from `logits_from` on have logits.
  void add(const key_count& keys, std::int32_t first, std::int32_t count, std::int32_t logits_from = no_logits);
};

/// Milliseconds of a step: an estimate that is linear in its load.
struct step_cost {
  double fixed = 0;
  double per_row = 0;
  double per_read = 0;
  double per_pair = 0;
  double per_head = 0;

  double of(const step_load& load) const;
  /// Of rows beside others; without `fixed`.
  double more(const step_load& load) const { return of(load) - fixed; }
  /// The most rows of one sequence, from position `first` on and `most` at most, that add `ms` or less; those from
  /// position `logits_from` on have logits.
  std::int32_t rows_within(const key_count& keys, std::int32_t first, std::int32_t most, double ms,
                           std::int32_t logits_from = no_logits) const;
};

}  // namespace kvern::gpu
