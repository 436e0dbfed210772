#pragma once

#include <cstddef>
#include <random>
#include <vector>

namespace kvern::bench {

/// `n` normally distributed values, the same ones each time.
inline std::vector<float> random_floats(std::size_t n) {
  std::mt19937 engine(7);
  std::normal_distribution<float> d;
  std::vector<float> v(n);
  for (float& x : v) x = d(engine);
  return v;
}

}  // namespace kvern::bench
