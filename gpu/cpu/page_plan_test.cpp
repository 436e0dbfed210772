#include "gpu/cpu/page_plan.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "gpu/backend.hpp"

namespace kvern::gpu::cpu {
namespace {

constexpr cache_shape shape{.layers = 30, .kv_heads = 3, .head_dim = 64, .type = line_type::f16};
constexpr std::uint64_t page = 30 * 2 * 192 * 2 * 32;

TEST(page_plan, explicit_memory_is_used_whole) {
  EXPECT_EQ(plan_pages(shape, 1000, 100 * page + page / 2, 0), 100);
  EXPECT_EQ(plan_pages(shape, 1000, 32 * page, 0), 32);
}

TEST(page_plan, one_context_must_fit_and_the_error_says_what_would) {
  const auto planned = plan_pages(shape, 1000, 32 * page - 1, std::uint64_t{1} << 40);
  ASSERT_FALSE(planned);
  EXPECT_EQ(planned.error().code, "kv_memory_too_small");
  EXPECT_NE(planned.error().message.find(std::to_string(32 * page)), std::string::npos);
  EXPECT_NE(planned.error().message.find("at most " + std::to_string(31 * page_lines)), std::string::npos);
  EXPECT_FALSE(plan_pages(shape, 1, 1, 0));
}

TEST(page_plan, the_default_is_a_quarter_of_the_free_memory_up_to_eight_contexts) {
  EXPECT_EQ(plan_pages(shape, 1024, 0, std::uint64_t{1} << 45), 8 * 32);
  EXPECT_EQ(plan_pages(shape, 1024, 0, 4 * 50 * page + 3), 50);
  const auto planned = plan_pages(shape, 1024, 0, 4 * 31 * page);
  ASSERT_FALSE(planned);
  EXPECT_EQ(planned.error().code, "kv_memory_too_small");
}

TEST(page_plan, numbers_stay_in_range) {
  constexpr cache_shape one{.layers = 1, .kv_heads = 1, .head_dim = 2, .type = line_type::f16};
  const auto planned = plan_pages(one, 1, std::numeric_limits<std::uint64_t>::max(), 0);
  ASSERT_TRUE(planned);
  EXPECT_EQ(*planned, std::numeric_limits<std::int32_t>::max() - 1);
}

}  // namespace
}  // namespace kvern::gpu::cpu
