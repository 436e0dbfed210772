#include "model/sampler/filters.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>

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

// Moves the first `count` of [from, end), and perhaps some more, to the front. Of a few samples one is chosen that most
// likely has `count` before it and few others: comparing with one value is quicker than finding the right one.
template <class Iterator, class Before>
Iterator gather_first(Iterator from, Iterator end, std::ptrdiff_t count, Before before) {
  constexpr std::ptrdiff_t samples = 1024;
  const std::ptrdiff_t step = (end - from) / samples, rank = 2 * count / std::max<std::ptrdiff_t>(step, 1) + 8;
  if (step < 8 || rank >= samples / 4) return end;
  std::vector<typename std::iterator_traits<Iterator>::value_type> sampled;
  sampled.reserve(samples);
  for (std::ptrdiff_t i = 0; i < samples; ++i) sampled.push_back(from[i * step]);
  std::nth_element(sampled.begin(), sampled.begin() + rank, sampled.end(), before);
  const auto pivot = sampled[static_cast<std::size_t>(rank)];
  const auto middle = std::partition(from, end, [&](const auto& each) { return before(each, pivot); });
  return middle - from >= count ? middle : end;
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
    if (end < items.size()) std::nth_element(from, to - 1, gather_first(from, items.end(), to - from, before), before);
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
  double total = 0;
  std::vector<scored> items;
  items.reserve(c.size());
  for (const candidate& each : c) {
    items.push_back({each, weight(each, top), 0});
    total += items.back().probability;
  }
  const double log_total = std::log(total);
  double entropy = 0;
  for (scored& each : items) {
    each.probability /= total;
    each.score = log_total - (static_cast<double>(each.item.logit) - top);  // its surprise
    entropy += each.probability > 0 ? each.probability * each.score : 0;
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
