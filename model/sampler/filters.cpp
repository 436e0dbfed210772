#include "model/sampler/filters.hpp"

#include <algorithm>
#include <cmath>

namespace kvern {
namespace {

float largest_logit(const std::vector<candidate>& c) {
  return std::max_element(c.begin(), c.end(), [](const auto& a, const auto& b) { return a.logit < b.logit; })->logit;
}

double weight(const candidate& c, float top) { return std::exp(static_cast<double>(c.logit) - top); }

double total_weight(const std::vector<candidate>& c, float top) {
  double sum = 0;
  for (const candidate& each : c) sum += weight(each, top);
  return sum;
}

// Sorts more and more of the front of `items`, and calls `take` on it in order until that says enough; cuts there.
template <class Items, class Before, class Take>
void keep_prefix(Items& items, Before before, Take take) {
  std::size_t sorted = 0;
  std::size_t target = 128;
  while (sorted < items.size()) {
    const std::size_t end = std::min(target, items.size());
    const auto from = items.begin() + static_cast<std::ptrdiff_t>(sorted);
    const auto to = items.begin() + static_cast<std::ptrdiff_t>(end);
    if (end < items.size()) std::nth_element(from, to - 1, items.end(), before);
    std::sort(from, to, before);
    for (; sorted < end; ++sorted) {
      if (take(items[sorted])) {
        items.resize(sorted + 1);
        return;
      }
    }
    target *= 8;
  }
}

}  // namespace

void keep_typical(std::vector<candidate>& c, double p) {
  struct scored {
    candidate item;
    double probability;
    double score;  // distance of its surprise from the entropy
  };
  const float top = largest_logit(c);
  const double total = total_weight(c, top);
  const double log_total = std::log(total);
  double entropy = 0;
  std::vector<scored> items;
  items.reserve(c.size());
  for (const candidate& each : c) {
    const double surprise = log_total - (static_cast<double>(each.logit) - top);
    const double probability = weight(each, top) / total;
    entropy += probability > 0 ? probability * surprise : 0;
    items.push_back({each, probability, surprise});
  }
  for (scored& each : items) each.score = std::abs(each.score - entropy);
  double sum = 0;
  keep_prefix(
      items,
      [](const scored& a, const scored& b) {
        return a.score < b.score || (a.score == b.score && likelier(a.item, b.item));
      },
      [&](const scored& each) { return (sum += each.probability) > p; });
  c.clear();
  for (const scored& each : items) c.push_back(each.item);
}

void keep_likely(std::vector<candidate>& c, double top_p, double min_p) {
  // Both keep a front of the sorted candidates, so the shorter one is the answer. min_p needs no sort: it goes first,
  // but after top_p's total, which is of all candidates.
  const float top = largest_logit(c);
  const double wanted = top_p < 1 ? top_p * total_weight(c, top) : 0;
  if (min_p > 0) {
    const double least = static_cast<double>(top) + std::log(min_p);
    std::erase_if(c, [&](const candidate& each) { return static_cast<double>(each.logit) < least; });
  }
  if (top_p >= 1) return;
  double sum = 0;
  keep_prefix(c, likelier, [&](const candidate& each) { return (sum += weight(each, top)) >= wanted; });
}

token_id draw(const std::vector<candidate>& c, double temperature, double u) {
  const float top = largest_logit(c);
  const auto share = [&](const candidate& each) {
    return std::exp((static_cast<double>(each.logit) - top) / temperature);
  };
  double total = 0;
  for (const candidate& each : c) total += share(each);
  const double wanted = u * total;
  double sum = 0;
  token_id last = c.front().id;
  for (const candidate& each : c) {
    const double s = share(each);
    if (s <= 0) continue;
    last = each.id;
    sum += s;
    if (sum > wanted) break;
  }
  return last;
}

}  // namespace kvern
