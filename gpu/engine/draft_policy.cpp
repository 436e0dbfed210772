#include "gpu/engine/draft_policy.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace kvern::gpu {
namespace {

constexpr double least_weight = 0.1;        // of a new measurement
constexpr double unsure_weight = 0.5;       // of one that the mean does not agree with, or nearly the first
constexpr double agreeing = 0.15;           // of a measurement, to its mean
constexpr std::int32_t most_unsure = 4;     // measurements, until they are taken as they are
constexpr std::int64_t longest_known = 64;  // steps that a measurement is believed
constexpr double least_ms = 1e-3;           // of a step
constexpr double most_tried = 16;           // tokens that a tally remembers
constexpr double most_passed_on = 4;        // of them, to the next turn
constexpr double credit_passed_on = 1;      // at most
constexpr double allowance = 0.015;         // of a step, for each token
constexpr double most_credit = 16;          // steps
constexpr double least_chance = 0.2;        // of a token that is always wanted
constexpr double least_gain = 0.01;         // steps that a token is expected to save, to be looked at
constexpr double least_pace = 0.8;          // of a turn's pace without drafts
constexpr double trial_credit = 0.5;        // steps
constexpr std::int32_t trial_rows = 3;      // of a draft that shall show whether drafts pay
constexpr std::int32_t most_patience = 8;   // rows in which a dear first one may be made good

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
      : wishes_(wishes), room_(room), costs_(costs), otherwise_(otherwise), lengths_(wishes.size(), 0) {
    for (const draft_wish& w : wishes) next_.push_back(w.chance);
    expected_.assign(wishes.size(), 1.0);
    prompts_ms_ = otherwise.per_row * (room.rows - room.decoding);
    plain_ms_ = costs.estimate(room.decoding, 0, otherwise) + prompts_ms_;
  }

  const std::vector<std::int32_t>& lengths() const { return lengths_; }
  /// Tokens so far.
  std::size_t size() const { return added_.size(); }

  /// Adds the likeliest token among wishes of this kind; false when there is none left, or none as likely as `least`. A
  /// draft that is always wanted has a first token, however unlikely; another costs no more than its turn's credit.
  bool grow(bool always, double least) {
    if (std::ssize(added_) >= room_.most) return false;
    const double each = cost_each(size() + 1);
    std::size_t best = wishes_.size();
    double value = least;
    for (std::size_t i = 0; i < wishes_.size(); ++i) {
      const draft_wish& w = wishes_[i];
      if (w.always != always || lengths_[i] >= w.most) continue;
      if (next_[i] < value && !(always && lengths_[i] == 0)) continue;
      if (!always && each * (lengths_[i] + 1) > w.credit) continue;
      value = std::max(value, next_[i]);
      best = i;
    }
    if (best == wishes_.size()) return false;
    add(best);
    return true;
  }

  void add(std::size_t i) {
    added_.emplace_back(i, next_[i]);
    ++lengths_[i];
    expected_[i] += next_[i];
    gained_ += next_[i];
    next_[i] *= wishes_[i].chance;
    growth_ = growth_with(size());
  }

  /// Takes back all but the first `size` tokens.
  void cut(std::size_t size) {
    for (; added_.size() > size; added_.pop_back()) {
      const auto [i, chance] = added_.back();
      --lengths_[i];
      expected_[i] -= chance;
      gained_ -= chance;
      next_[i] = chance;
    }
    growth_ = growth_with(size);
  }

  /// Steps' time gained over all turns, as expected; below 0 where it is lost.
  double net() const { return gained_ - room_.decoding * (growth_ - 1); }
  bool is_fair() const {
    if (room_.decoding <= 1) return true;
    if (growth_ * least_pace <= 1) return true;
    const bool all_draft = std::ssize(wishes_) >= room_.decoding;
    return all_draft && *std::min_element(expected_.begin(), expected_.end()) / growth_ >= least_pace;
  }
  /// What each of so many tokens costs its turn, in steps.
  double cost_each(std::size_t tokens) const {
    return (growth_with(tokens) - 1) * room_.decoding / static_cast<double>(tokens);
  }

 private:
  /// A step's time by that without drafts.
  double growth_with(std::size_t tokens) const {
    if (tokens == 0 || plain_ms_ <= 0) return 1;
    const auto drafted = static_cast<std::int32_t>(tokens);
    return std::max(1.0, (costs_.estimate(room_.decoding + drafted, drafted, otherwise_) + prompts_ms_) / plain_ms_);
  }

  std::span<const draft_wish> wishes_;
  draft_room room_;
  const row_costs& costs_;
  const step_cost& otherwise_;
  std::vector<std::int32_t> lengths_;
  std::vector<double> next_;                           ///< chance of the token behind each draft
  std::vector<double> expected_;                       ///< tokens, the sampled one included
  std::vector<std::pair<std::size_t, double>> added_;  ///< wish and chance of each token
  double prompts_ms_ = 0;
  double plain_ms_ = 0;
  double gained_ = 0;
  double growth_ = 1;
};

/// Grows while it pays and is fair to all; a few rows further, for the first ones may be the dearest.
void grow_while(sharing& s, bool always, double least, const draft_room& room) {
  const auto patience = static_cast<std::size_t>(std::max(most_patience, room.decoding));
  std::size_t best = s.size();
  double net = s.net();
  while (s.size() - best < patience && s.grow(always, least)) {
    if ((!always && s.net() <= net) || !s.is_fair()) continue;
    net = s.net();
    best = s.size();
  }
  s.cut(best);
}

/// A short draft of the likeliest wish that has none and can pay for it.
void add_trial(sharing& s, std::span<const draft_wish> wishes, const draft_room& room) {
  std::size_t best = wishes.size();
  for (std::size_t i = 0; i < wishes.size(); ++i) {
    if (wishes[i].always || wishes[i].most == 0 || s.lengths()[i] > 0 || wishes[i].credit < trial_credit) continue;
    if (best == wishes.size() || wishes[i].chance > wishes[best].chance) best = i;
  }
  if (best == wishes.size()) return;
  const std::size_t before = s.size();
  const std::int32_t left = room.most - static_cast<std::int32_t>(before);
  for (std::int32_t i = std::min({trial_rows, wishes[best].most, left}); i > 0; --i) s.add(best);
  const auto costs = [&] { return s.cost_each(s.size()) * s.lengths()[best]; };
  while (s.size() > before && (!s.is_fair() || costs() > wishes[best].credit)) s.cut(s.size() - 1);
}

}  // namespace

void row_costs::learn(measured& m, std::int32_t rows, double ms, std::int64_t age) {
  const bool agrees = m.any && std::abs(ms / m.ms - 1) <= agreeing;
  const bool first = !m.any || age >= longest_known;
  m.any = true;
  m.again = first ? 1 : m.again + 1;
  m.odd = !first && !m.odd && ms > 2 * m.ms;
  if (m.odd) ms = 2 * m.ms;  // something else was going on, unless it is so again
  m.sure = agrees || m.again >= most_unsure;
  const double weight = first ? 1
                        : !m.sure || m.again <= 2
                            ? unsure_weight
                            : std::max(least_weight, static_cast<double>(age) / static_cast<double>(longest_known));
  m.rows += weight * (rows - m.rows);
  m.ms += weight * (ms - m.ms);
}

void row_costs::observe(std::int32_t rows, std::int32_t drafted, double ms) {
  const std::size_t size = size_of(rows);
  if (size >= plain_.size() || !std::isfinite(ms) || ms < 0) return;
  measured& m = (drafted == 0 ? plain_ : drafted_)[size];
  ++observed_;
  learn(m, rows, std::max(ms, least_ms), age(m));
  m.last = observed_;
  if (drafted == 0) return;
  // What takes less with more rows is a machine that has become faster.
  for (measured& p : plain_)
    if (p.any && p.rows <= rows && ms < p.ms * (1 - agreeing)) {
      p.sure = false;
      p.again = 0;
    }
}

bool row_costs::is_known(std::int32_t rows) const {
  const std::size_t size = size_of(rows);
  return size < plain_.size() && plain_[size].sure && age(plain_[size]) < longest_known;
}

double row_costs::estimate(std::int32_t rows, std::int32_t drafted, const step_cost& otherwise) const {
  const measured* below = nullptr;
  const measured* above = nullptr;
  // Those of its own kind go first, for they win where both have as many rows.
  for (const sizes* kind : {drafted == 0 ? &plain_ : &drafted_, drafted == 0 ? &drafted_ : &plain_})
    for (const measured& m : *kind) {
      if (!m.any || age(m) >= longest_known) continue;
      if (m.rows <= rows && (below == nullptr || m.rows > below->rows)) below = &m;
      if (m.rows > rows && (above == nullptr || m.rows < above->rows)) above = &m;
    }
  const double n = rows;
  if (below == nullptr && above == nullptr) return otherwise.of({.rows = n, .heads = n});
  if (below == nullptr || above == nullptr) {
    const measured& known = below != nullptr ? *below : *above;
    return std::max(least_ms, known.ms + (otherwise.per_row + otherwise.per_head) * (n - known.rows));
  }
  return below->ms + std::max(0.0, above->ms - below->ms) * (n - below->rows) / (above->rows - below->rows);
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

draft_record draft_record::passed_on() const {
  draft_record next = *this;
  for (tally& t : next.by_match_) {
    const double part = std::min(1.0, most_passed_on / t.tried);
    t.right *= part;
    t.tried *= part;
  }
  next.credit_ = std::clamp(credit_, 0.0, credit_passed_on);
  return next;
}

std::vector<std::int32_t> share_drafts(std::span<const draft_wish> wishes, const draft_room& room,
                                       const row_costs& costs, const step_cost& otherwise) {
  if (wishes.empty()) return {};
  sharing now(wishes, room, costs, otherwise);
  grow_while(now, true, least_chance, room);
  if (costs.is_known(room.decoding)) {
    grow_while(now, false, least_gain, room);
    add_trial(now, wishes, room);
  }
  return now.lengths();
}

}  // namespace kvern::gpu
