#include "model/sampler/select.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace kvern {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// Lanes that are compared apart, so that the compiler keeps them in vector registers.
constexpr std::size_t lanes = 32;
constexpr std::size_t block = 1024;

// The largest of `x`, NaN left out (a comparison with it is false); -inf when there is none.
float largest(std::span<const float> x) {
  std::array<float, lanes> best;
  best.fill(-infinity);
  std::size_t i = 0;
  for (; i + lanes <= x.size(); i += lanes)
    for (std::size_t j = 0; j < lanes; ++j) best[j] = x[i + j] > best[j] ? x[i + j] : best[j];
  float top = -infinity;
  for (const float b : best) top = b > top ? b : top;
  for (; i < x.size(); ++i) top = x[i] > top ? x[i] : top;
  return top;
}

token_id argmax_checked(std::span<const float> logits) {
  float top = -infinity;
  std::size_t at = logits.size();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > top && logits[i] < infinity) {
      top = logits[i];
      at = i;
    }
  }
  return at == logits.size() ? -1 : static_cast<token_id>(at);
}

bool any_above(const float* x, float threshold) {
  std::int32_t above = 0;
  for (std::size_t j = 0; j < lanes; ++j) above |= x[j] > threshold ? 1 : 0;
  return above != 0;
}

}  // namespace

token_id argmax(std::span<const float> logits) {
  float top = -infinity;
  std::size_t at = 0;
  for (std::size_t i = 0; i < logits.size(); i += block) {
    const float here = largest(logits.subspan(i, std::min(block, logits.size() - i)));
    if (here > top) {
      top = here;
      at = i;
    }
  }
  if (top == infinity) return argmax_checked(logits);
  if (top == -infinity) return -1;
  while (logits[at] != top) ++at;
  return static_cast<token_id>(at);
}

void top_k(std::span<const float> logits, std::size_t k, std::vector<candidate>& out) {
  out.clear();
  if (k == 0) return;
  // Ids ascend, so a later logit equal to the k-th best loses to it: only strictly larger ones enter.
  const std::size_t room = k + std::max<std::size_t>(k, 64);
  float threshold = -infinity;
  const auto keep_best = [&] {
    if (out.size() <= k) return;
    std::nth_element(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(k - 1), out.end(), likelier);
    out.resize(k);
    threshold = out.back().logit;
  };
  const auto offer = [&](std::size_t i) {
    const float x = logits[i];
    if (!(x > threshold) || x == infinity) return;
    out.push_back({x, static_cast<token_id>(i)});
    if (out.size() >= room) keep_best();
  };
  std::size_t i = 0;
  for (; i + lanes <= logits.size(); i += lanes) {
    if (!any_above(logits.data() + i, threshold)) continue;
    for (std::size_t j = i; j < i + lanes; ++j) offer(j);
  }
  for (; i < logits.size(); ++i) offer(i);
  keep_best();
  std::sort(out.begin(), out.end(), likelier);
}

void all_finite(std::span<const float> logits, std::vector<candidate>& out) {
  out.clear();
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (std::isfinite(logits[i])) out.push_back({logits[i], static_cast<token_id>(i)});
}

}  // namespace kvern
