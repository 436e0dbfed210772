#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/cache/cache_options.hpp"

namespace kvern::gpu {

/// What a history of the real backend runs on.
struct combination {
  int model = 0;  ///< index into tiny_models
  cache_options cache;
  int threads = 1;
};

/// Names of the small models: one without windows, one with every other layer's, one whose windows fill two tables.
inline constexpr const char* tiny_models[] = {"llama", "gemma2", "gemma3"};

std::string to_string(const combination& c);

/// Combinations of a round of histories.
inline constexpr std::uint64_t round_size = 24;

/// So many combinations, none that is refused, in which every pair of values that may go together does. Other rounds
/// pair them otherwise.
std::vector<combination> all_pairs(std::uint64_t round);

/// The combination of history `number`: those of round 0 one after the other, then those of round 1.
combination combination_of(std::uint64_t number);

}  // namespace kvern::gpu
