#include "gpu/cpu/page_plan.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "gpu/backend.hpp"

namespace kvern::gpu::cpu {
namespace {

constexpr std::uint64_t page = 30 * 2 * 192 * 2 * 32;
const std::vector<std::int32_t> plain = {0};
const std::vector<std::int32_t> mixed = {0, 512, 512};

page_demand demand(std::int32_t context, const std::vector<std::int32_t>& windows = plain,
                   cache_layout layout = cache_layout::paged) {
  return {.page_bytes = page, .windows = windows, .context = context, .max_rows = 100, .layout = layout};
}

TEST(page_plan, explicit_memory_is_used_whole) {
  EXPECT_EQ(plan_pages(demand(1000), 100 * page + page / 2, 0), 100);
  EXPECT_EQ(plan_pages(demand(1000), 32 * page, 0), 32);
}

TEST(page_plan, a_window_holds_its_lines_a_chunk_and_a_block) {
  EXPECT_EQ(context_pages(demand(1000)), 32u);
  // (512 + 100) / 32 rounded up, and one more.
  EXPECT_EQ(context_pages(demand(8192, mixed)), 256u + 2 * 21);
  EXPECT_EQ(context_pages(demand(600, mixed)), 3u * 19);
  EXPECT_EQ(context_pages(demand(8192, mixed, cache_layout::left)), 3u * 256);
  EXPECT_EQ(context_pages(demand(8192, mixed, cache_layout::ring)), 3u * 256);
}

TEST(page_plan, left_and_ring_have_whole_slots) {
  for (const cache_layout layout : {cache_layout::left, cache_layout::ring}) {
    EXPECT_EQ(plan_pages(demand(1000, mixed, layout), 200 * page, 0), 2 * 96);
    EXPECT_EQ(plan_pages(demand(1000, mixed, layout), 0, std::uint64_t{1} << 45), 8 * 96);
    EXPECT_FALSE(plan_pages(demand(1000, mixed, layout), 95 * page, 0));
  }
}

TEST(page_plan, one_context_must_fit_and_the_error_says_what_would) {
  const auto planned = plan_pages(demand(1000), 32 * page - 1, std::uint64_t{1} << 40);
  ASSERT_FALSE(planned);
  EXPECT_EQ(planned.error().code, "kv_memory_too_small");
  EXPECT_NE(planned.error().message.find(std::to_string(32 * page)), std::string::npos);
  EXPECT_NE(planned.error().message.find("at most " + std::to_string(31 * page_lines)), std::string::npos);
  EXPECT_FALSE(plan_pages(demand(1), 1, 0));
}

TEST(page_plan, the_context_that_an_error_advises_fits) {
  for (const cache_layout layout : {cache_layout::paged, cache_layout::left})
    for (std::uint64_t pages = 1; pages < 120; ++pages) {
      const auto planned = plan_pages(demand(8192, mixed, layout), pages * page, 0);
      ASSERT_FALSE(planned);
      const std::string& message = planned.error().message;
      const auto at = message.find("at most ");
      if (at == std::string::npos) {
        EXPECT_FALSE(plan_pages(demand(1, mixed, layout), pages * page, 0));
        continue;
      }
      const int advised = std::stoi(message.substr(at + 8));
      EXPECT_TRUE(plan_pages(demand(advised, mixed, layout), pages * page, 0)) << advised;
      EXPECT_FALSE(plan_pages(demand(advised + 1, mixed, layout), pages * page, 0)) << advised;
    }
}

TEST(page_plan, the_default_is_a_quarter_of_the_free_memory_up_to_eight_contexts) {
  EXPECT_EQ(plan_pages(demand(1024), 0, std::uint64_t{1} << 45), 8 * 32);
  EXPECT_EQ(plan_pages(demand(1024), 0, 4 * 50 * page + 3), 50);
  const auto planned = plan_pages(demand(1024), 0, 4 * 31 * page);
  ASSERT_FALSE(planned);
  EXPECT_EQ(planned.error().code, "kv_memory_too_small");
}

TEST(page_plan, numbers_stay_in_range) {
  page_demand one = demand(1);
  one.page_bytes = 1;
  EXPECT_EQ(plan_pages(one, std::numeric_limits<std::uint64_t>::max(), 0),
            std::numeric_limits<std::int32_t>::max() - 1);
  constexpr auto largest = std::numeric_limits<std::int32_t>::max();
  const std::vector<std::int32_t> wide = {0, largest};
  one = {.page_bytes = 1, .windows = wide, .context = largest, .max_rows = largest};
  EXPECT_EQ(context_pages(one), std::uint64_t{1} << 27);
}

}  // namespace
}  // namespace kvern::gpu::cpu
