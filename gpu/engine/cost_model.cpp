#include "gpu/engine/cost_model.hpp"

#include <algorithm>
#include <cmath>

namespace kvern::gpu {
namespace {

constexpr double forget = 0.98;
constexpr double uncertain = 100;          // variance of a factor about which nothing is known
constexpr std::int32_t first_rows = 32;    // of the step that tells how fast this model is here
constexpr double keys_like_a_row = 500;    // first guess: so many cost a row's time
constexpr double head_like_rows = 0.25;    // and a row's logits so much of it
constexpr double least_factor = 1e-9;      // of a row
constexpr double odd_miss = 0.25;          // what is learned from a step of more than twice its time
constexpr std::size_t settled_after = 20;  // measurements
constexpr double other_pace = 1.5;         // a machine that much slower or faster is another one
constexpr double least_ms = 1e-6;
constexpr double spread_memory = 0.05;  // weight of the newest error
constexpr double most_spread = 0.2;
constexpr double spreads_to_95 = 2;  // a normal error's 95th percentile is 2.06 mean absolute errors away

}  // namespace

cost_model::vector cost_model::scaled(const step_load& load) {
  constexpr double rows = 32, keys = 16384;
  return {1, load.rows / rows, load.reads / keys, load.pairs / keys, load.heads / rows};
}

double cost_model::shape(const vector& x) const {
  double ms = 0;
  for (std::size_t i = 0; i < terms; ++i) ms += factors_[i] * x[i];
  return ms * first_ms_;
}

/// How much slower than its shape says the machine is now: the median of the last steps.
double cost_model::pace() const {
  const std::size_t n = std::min(count_, last_.size());
  if (n == 0) return 1;
  std::array<double, 5> ratios{};
  for (std::size_t i = 0; i < n; ++i) ratios[i] = last_[i].ms / shape(last_[i].x);
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(n / 2);
  std::nth_element(ratios.begin(), middle, ratios.begin() + static_cast<std::ptrdiff_t>(n));
  return *middle;
}

void cost_model::begin(const vector& x, double ms) {
  seen_ = true;
  first_ms_ = ms;
  const vector rows = scaled({.rows = 1});
  const vector keys = scaled({.reads = keys_like_a_row, .pairs = keys_like_a_row});
  // All of it for the rows: the first mixed steps come out short, not long.
  factors_ = {0, 1, rows[1] / keys[2] / 2, rows[1] / keys[3] / 2, head_like_rows};
  const double all = shape(x) / ms;
  for (double& f : factors_) f /= all;
  for (std::size_t i = 0; i < terms; ++i) p_[i][i] = uncertain;
}

void cost_model::learn(const vector& x, double ms) {
  const double expected = shape(x);
  // Errors are relative, or the largest steps would decide for all.
  vector y{}, g{};
  for (std::size_t i = 0; i < terms; ++i) y[i] = x[i] * first_ms_ / expected;
  const bool odd = ms > 2 * expected;
  const double miss = odd ? (settled() ? odd_miss : 1) : ms / expected - 1;
  double scale = forget;
  for (std::size_t i = 0; i < terms; ++i) {
    for (std::size_t j = 0; j < terms; ++j) g[i] += p_[i][j] * y[j];
    scale += g[i] * y[i];
  }
  for (std::size_t i = 0; i < terms; ++i)
    factors_[i] = std::max(i == 1 ? least_factor : 0.0, factors_[i] + g[i] / scale * miss);
  // An odd measurement was cut; it says that the model is off, so it adds no certainty.
  if (odd) return;
  for (std::size_t i = 0; i < terms; ++i)
    for (std::size_t j = 0; j < terms; ++j) p_[i][j] = (p_[i][j] - g[i] * g[j] / scale) / forget;
  // Without variety a variance about which nothing is learned would grow for ever. A measurement of one factor that
  // says next to nothing bounds it, and leaves the others alone: to shrink all for one would undo their forgetting.
  const std::size_t k = count_ % terms;
  const vector column = p_[k];
  const double more = terms * (1 - forget) / uncertain;
  const double share = more / (1 + more * column[k]);
  for (std::size_t i = 0; i < terms; ++i)
    for (std::size_t j = 0; j < terms; ++j) p_[i][j] -= column[i] * column[j] * share;
}

void cost_model::observe(const step_load& load, double ms) {
  if (load.rows <= 0 || !std::isfinite(ms) || ms < 0) return;
  ms = std::max(ms, least_ms);
  const vector x = scaled(load);
  if (!seen_) {
    begin(x, ms);
  } else {
    const double error = std::min(most_spread, std::abs(ms / (pace() * shape(x)) - 1));
    spread_ += spread_memory * (error - spread_);
  }
  last_[count_++ % last_.size()] = {x, ms};
  const double now = pace();
  if (settled() && (now > other_pace || now < 1 / other_pace))
    for (double& f : factors_) f *= now;
  learn(x, ms);
  most_rows_ = std::max(most_rows_, static_cast<std::int32_t>(load.rows));
}

bool cost_model::settled() const { return count_ >= settled_after; }

step_cost cost_model::estimate() const {
  if (!seen_) return {};
  const double now = pace() * first_ms_;
  const auto each = [&](std::size_t term, const step_load& one) { return factors_[term] * scaled(one)[term] * now; };
  return {.fixed = factors_[0] * now,
          .per_row = each(1, {.rows = 1}),
          .per_read = each(2, {.reads = 1}),
          .per_pair = each(3, {.pairs = 1}),
          .per_head = each(4, {.heads = 1})};
}

double cost_model::aim(double ms) const { return ms / (1 + spreads_to_95 * spread_); }

std::int32_t cost_model::first_chunk(std::int32_t most) const { return seen_ ? most : std::min(most, first_rows); }

std::int32_t cost_model::trusted_rows(std::int32_t most) const {
  return std::min(most, std::max(first_rows, 2 * most_rows_));
}

}  // namespace kvern::gpu
