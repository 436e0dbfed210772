#include "tests/property/combinations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <tuple>

namespace kvern::gpu {
namespace {

// model, layout, update, stacked, stage_stacked, type and scale, shards, threads
constexpr std::array<int, 8> values = {3, 3, 2, 2, 2, 6, 2, 2};
using choice = std::array<int, values.size()>;
using pair_of_values = std::tuple<std::size_t, int, std::size_t, int>;

combination make(const choice& c) {
  constexpr std::array types = {line_type::f32,  line_type::f16,  line_type::bf16,
                                line_type::int8, line_type::int8, line_type::int8};
  constexpr std::array scales = {scale_span::group, scale_span::group, scale_span::group,
                                 scale_span::group, scale_span::head,  scale_span::line};
  return {.model = c[0],
          .cache = {.layout = static_cast<cache_layout>(c[1]),
                    .update = static_cast<cache_update>(c[2]),
                    .stacked = c[3] == 0,
                    .stage_stacked = c[4] == 0,
                    .type = types[static_cast<std::size_t>(c[5])],
                    .scale = scales[static_cast<std::size_t>(c[5])],
                    .shards = c[6] + 1},
          .threads = c[7] + 1};
}

bool allowed(const choice& c) { return validate(make(c).cache, 2).has_value(); }

std::vector<pair_of_values> pairs_of(const choice& c) {
  std::vector<pair_of_values> pairs;
  for (std::size_t i = 0; i < values.size(); ++i)
    for (std::size_t j = i + 1; j < values.size(); ++j) pairs.emplace_back(i, c[i], j, c[j]);
  return pairs;
}

template <class F>
void for_every(F&& visit) {
  choice c{};
  for (;;) {
    if (allowed(c)) visit(c);
    std::size_t i = 0;
    for (; i < values.size() && ++c[i] == values[i]; ++i) c[i] = 0;
    if (i == values.size()) return;
  }
}

}  // namespace

std::string to_string(const combination& c) {
  const cache_options& o = c.cache;
  const std::string scale = o.type == line_type::int8 ? fmt::format(" {}", to_string(o.scale)) : "";
  return fmt::format("{} {} {}{}{} {}{} shards {} threads {}", tiny_models[c.model], to_string(o.layout),
                     to_string(o.update), o.stacked ? " stacked" : "", o.stage_stacked ? " stage_stacked" : "",
                     to_string(o.type), scale, o.shards, c.threads);
}

std::vector<combination> all_pairs(std::uint64_t round) {
  std::mt19937_64 random(round);
  std::vector<choice> every;
  for_every([&](const choice& c) { every.push_back(c); });
  std::shuffle(every.begin(), every.end(), random);
  std::set<pair_of_values> missing;
  for (const choice& c : every)
    for (const auto& pair : pairs_of(c)) missing.insert(pair);
  std::vector<combination> chosen;
  while (!missing.empty()) {
    const auto gain = [&](const choice& c) {
      const auto pairs = pairs_of(c);
      return std::count_if(pairs.begin(), pairs.end(), [&](const auto& pair) { return missing.contains(pair); });
    };
    const choice& best =
        *std::max_element(every.begin(), every.end(), [&](const auto& a, const auto& b) { return gain(a) < gain(b); });
    for (const auto& pair : pairs_of(best)) missing.erase(pair);
    chosen.push_back(make(best));
  }
  for (std::size_t n = 0; chosen.size() < round_size; ++n) chosen.push_back(make(every[n]));
  return chosen;
}

combination combination_of(std::uint64_t number) {
  thread_local std::uint64_t round = 0;
  thread_local std::vector<combination> all = all_pairs(round);
  if (number / round_size != round) {
    round = number / round_size;
    all = all_pairs(round);
  }
  return all[number % round_size];
}

}  // namespace kvern::gpu
