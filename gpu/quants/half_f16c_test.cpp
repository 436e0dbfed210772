// Built with F16C (see CMakeLists.txt), so that half.hpp's instructions are compared with its plain code.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "gpu/quants/half.hpp"

namespace kvern::gpu {
namespace {

#ifdef __F16C__

TEST(half_f16c, widens_like_the_plain_code) {
  if (__builtin_cpu_supports("f16c") == 0) GTEST_SKIP() << "no F16C here";
  std::vector<std::uint16_t> halves(0x10000);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  std::vector<float> values(halves.size());
  f16_to_f32(std::span<const std::uint16_t>(halves), values);
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const auto plain = std::bit_cast<std::uint32_t>(detail::plain_f16_to_f32(halves[i]));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(values[i]), plain) << i;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(f16_to_f32(halves[i])), plain) << i;
  }
}

TEST(half_f16c, narrows_like_the_plain_code) {
  if (__builtin_cpu_supports("f16c") == 0) GTEST_SKIP() << "no F16C here";
  std::vector<float> values;
  for (std::uint64_t pattern = 0; pattern <= UINT32_MAX; pattern += 4999) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(pattern)));
  }
  std::vector<std::uint16_t> halves(values.size());
  f32_to_f16(std::span<const float>(values), halves);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t plain = detail::plain_f32_to_f16(values[i]);
    ASSERT_EQ(halves[i], plain) << std::bit_cast<std::uint32_t>(values[i]);
    ASSERT_EQ(f32_to_f16(values[i]), plain) << std::bit_cast<std::uint32_t>(values[i]);
  }
}

#endif

}  // namespace
}  // namespace kvern::gpu
