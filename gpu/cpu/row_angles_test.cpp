#include "gpu/cpu/row_angles.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace kvern::gpu::cpu {
namespace {

TEST(row_angles, a_row_has_the_bits_of_its_position_in_and_beyond_the_table) {
  decoder_config config;
  config.window = {16, 0, 16};
  config.rope = {.dims = 8, .base = 1e6, .scaling = rope_scaling::linear, .factor = 8};
  config.local_rope = rope_config{.dims = 8, .base = 10000};
  auto few = row_angles::create(config, 20, 4);
  ASSERT_TRUE(few) << few.error().message;
  const auto global = rope_table::create(config.rope, 1000);
  const auto local = rope_table::create(*config.local_rope, 1000);
  ASSERT_TRUE(global && local);
  step s;
  for (const std::int32_t position : {0, 19, 20, 999}) s.rows.push_back({.position = position});
  few->find(s);
  const auto equal = [](const float* a, const float* b) { return std::memcmp(a, b, 8 * sizeof(float)) == 0; };
  for (std::size_t row = 0; row < s.rows.size(); ++row) {
    const std::int32_t position = s.rows[row].position;
    const auto r = static_cast<std::int64_t>(row);
    EXPECT_TRUE(equal(few->of(0, r), local->angles(position))) << position;
    EXPECT_TRUE(equal(few->of(1, r), global->angles(position))) << position;
    EXPECT_EQ(few->of(0, r), few->of(2, r));
  }
  s.rows = {{.position = (1 << 24) - 1}};
  few->find(s);
  std::vector<float> farthest(8);
  global->compute((1 << 24) - 1, farthest.data());
  EXPECT_TRUE(equal(few->of(1, 0), farthest.data()));
}

TEST(row_angles, windows_without_a_rope_of_their_own_turn_as_the_others) {
  decoder_config config;
  config.window = {16, 0};
  config.rope = {.dims = 4};
  auto angles = row_angles::create(config, 4, 1);
  ASSERT_TRUE(angles);
  angles->find({.rows = {{.position = 3}}, .sequences = {}});
  EXPECT_EQ(angles->of(0, 0), angles->of(1, 0));
}

}  // namespace
}  // namespace kvern::gpu::cpu
