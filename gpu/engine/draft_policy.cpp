#include "gpu/engine/draft_policy.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace kvern::gpu {
namespace {

constexpr double least_weight = 0.1;        // of a new measurement
constexpr std::int64_t longest_known = 64;  // steps that a measurement is believed
constexpr double most_tried = 16;           // tokens that a tally remembers
constexpr double allowance = 0.015;         // of a step, for each token
constexpr double most_credit = 16;          // steps
constexpr double least_chance = 0.2;        // of a token that is always wanted
constexpr double least_pace = 0.8;          // of a turn's pace without drafts
constexpr std::int32_t trial_rows = 3;      // of a draft that shall show whether drafts pay

/// Index into row_costs' sizes, or beyond them.
std::size_t size_of(std::int32_t rows) {
  return rows < 1 ? SIZE_MAX : static_cast<std::size_t>(std::bit_width(static_cast<std::uint32_t>(rows - 1)));
}

std::size_t kind_of(std::int32_t match) { return match < 4 ? 0 : match < 12 ? 1 : 2; }

/// The drafts of a step as they grow.
class sharing {
 public:
  sharing(std::span<const draft_wish> wishes, const draft_room& room, const row_costs& costs,
          const step_cost& otherwise)
      : wishes_(wishes),
        room_(room),
        costs_(&costs),
        otherwise_(&otherwise),
        lengths_(wishes.size(), 0),
        expected_(wishes.size(), 1.0),
        plain_ms_(costs.estimate(room.rows, otherwise)) {}

  const std::vector<std::int32_t>& lengths() const { return lengths_; }

  /// Adds the likeliest token among wishes of this kind; false when there is none left, or none as likely as `least`. A
  /// draft that is always wanted has a first token, however unlikely.
  bool grow(bool always, double least) {
    if (added_ >= room_.most) return false;
    std::size_t best = wishes_.size();
    double value = least;
    for (std::size_t i = 0; i < wishes_.size(); ++i) {
      const draft_wish& w = wishes_[i];
      if (w.always != always || lengths_[i] >= w.most || (!always && w.credit < 0)) continue;
      const double next = std::pow(w.chance, lengths_[i] + 1);
      if (next < value && !(always && lengths_[i] == 0)) continue;
      value = std::max(value, next);
      best = i;
    }
    if (best == wishes_.size()) return false;
    add(best);
    return true;
  }

  void add(std::size_t i) {
    ++lengths_[i];
    ++added_;
    const double chance = std::pow(wishes_[i].chance, lengths_[i]);
    expected_[i] += chance;
    gained_ += chance;
  }

  /// Steps' time gained over all turns, as expected; below 0 where it is lost.
  double net() const { return gained_ - room_.decoding * (growth() - 1); }
  bool is_fair() const {
    if (room_.decoding <= 1) return true;
    const bool all_draft = static_cast<std::int32_t>(wishes_.size()) >= room_.decoding;
    const double slowest = all_draft ? *std::min_element(expected_.begin(), expected_.end()) : 1;
    return slowest / growth() >= least_pace;
  }
  /// A step's time by that without drafts.
  double growth() const {
    return added_ == 0 || plain_ms_ <= 0
               ? 1
               : std::max(1.0, costs_->estimate(room_.rows + added_, *otherwise_) / plain_ms_);
  }

 private:
  std::span<const draft_wish> wishes_;
  draft_room room_;
  const row_costs* costs_;
  const step_cost* otherwise_;
  std::vector<std::int32_t> lengths_;
  std::vector<double> expected_;  ///< tokens, the sampled one included
  double plain_ms_;
  double gained_ = 0;
  std::int32_t added_ = 0;
};

/// A short draft of the likeliest wish that has none and can pay for it.
void add_trial(sharing& s, std::span<const draft_wish> wishes, const draft_room& room) {
  std::size_t best = wishes.size();
  for (std::size_t i = 0; i < wishes.size(); ++i) {
    if (wishes[i].always || wishes[i].most == 0 || s.lengths()[i] > 0 || wishes[i].credit < 0.5) continue;
    if (best == wishes.size() || wishes[i].chance > wishes[best].chance) best = i;
  }
  if (best == wishes.size()) return;
  sharing tried = s;
  std::int32_t rows = 0;
  for (const std::int32_t length : s.lengths()) rows += length;
  for (std::int32_t i = 0; i < std::min({trial_rows, wishes[best].most, room.most - rows}); ++i) tried.add(best);
  if (tried.is_fair()) s = tried;
}

}  // namespace

void row_costs::observe(std::int32_t rows, double ms) {
  const std::size_t size = size_of(rows);
  if (size >= sizes_.size() || !std::isfinite(ms) || ms < 0) return;
  measured& m = sizes_[size];
  const auto age = static_cast<double>(++observed_ - m.last);
  m.last = observed_;
  const double weight = m.count == 0 ? 1 : std::clamp(age / static_cast<double>(longest_known), least_weight, 0.5);
  if (m.count++ > 0) ms = std::min(ms, 2 * m.ms);  // something else was going on
  m.rows += weight * (rows - m.rows);
  m.ms += weight * (ms - m.ms);
}

bool row_costs::is_known(std::int32_t rows) const {
  const std::size_t size = size_of(rows);
  return size < sizes_.size() && sizes_[size].count > 0 && observed_ - sizes_[size].last < longest_known;
}

double row_costs::estimate(std::int32_t rows, const step_cost& otherwise) const {
  const measured* below = nullptr;
  const measured* above = nullptr;
  for (const measured& m : sizes_) {
    if (m.count == 0) continue;
    if (m.rows <= rows)
      below = &m;
    else if (above == nullptr)
      above = &m;
  }
  if (below == nullptr && above == nullptr) return otherwise.of({.rows = static_cast<double>(rows)});
  if (below == nullptr || above == nullptr) {
    const measured& known = below != nullptr ? *below : *above;
    return std::max(0.0, known.ms + otherwise.per_row * (rows - known.rows));
  }
  return below->ms + std::max(0.0, above->ms - below->ms) * (rows - below->rows) / (above->rows - below->rows);
}

double draft_record::chance(std::int32_t match) const {
  const tally& t = by_match_[kind_of(match)];
  return std::clamp(t.right / t.tried, 0.0, 0.98);
}

void draft_record::observe(std::int32_t match, std::int32_t drafted, std::int32_t accepted) {
  tally& t = by_match_[kind_of(match)];
  t.right += accepted;
  t.tried += accepted + (accepted < drafted ? 1 : 0);
  if (t.tried <= most_tried) return;
  t.right *= most_tried / t.tried;
  t.tried = most_tried;
}

void draft_record::settle(std::int32_t tokens, double cost) {
  credit_ = std::min(most_credit, credit_ + allowance * tokens + (tokens - 1) - cost);
}

std::vector<std::int32_t> share_drafts(std::span<const draft_wish> wishes, const draft_room& room,
                                       const row_costs& costs, const step_cost& otherwise) {
  sharing now(wishes, room, costs, otherwise);
  if (wishes.empty()) return {};
  sharing best = now;
  while (now.grow(true, least_chance))
    if (now.is_fair()) best = now;
  now = best;
  if (!costs.is_known(room.rows)) return best.lengths();
  double net = now.net();
  while (now.grow(false, std::numeric_limits<double>::min())) {
    if (now.net() <= net || !now.is_fair()) continue;
    net = now.net();
    best = now;
  }
  add_trial(best, wishes, room);
  return best.lengths();
}

}  // namespace kvern::gpu
