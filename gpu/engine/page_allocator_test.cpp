#include "gpu/engine/page_allocator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace kvern::gpu {
namespace {

TEST(PageAllocator, GivesEachPageOnce) {
  page_allocator a(5);
  std::vector<page_id> pages, dirty;
  ASSERT_TRUE(a.allocate(3, 1, pages, dirty));
  ASSERT_TRUE(a.allocate(2, 2, pages, dirty));
  std::sort(pages.begin(), pages.end());
  EXPECT_EQ(pages, (std::vector<page_id>{0, 1, 2, 3, 4}));
  EXPECT_TRUE(dirty.empty());
  EXPECT_EQ(a.free_pages(), 0);
  EXPECT_EQ(a.total(), 5);
}

TEST(PageAllocator, AllOrNothing) {
  page_allocator a(3);
  std::vector<page_id> pages, dirty;
  EXPECT_FALSE(a.allocate(4, 1, pages, dirty));
  EXPECT_TRUE(pages.empty());
  EXPECT_EQ(a.free_pages(), 3);
}

TEST(PageAllocator, KnowsWhichPagesToClear) {
  page_allocator a(2);
  std::vector<page_id> pages, dirty;
  ASSERT_TRUE(a.allocate(2, 1, pages, dirty));
  a.free(pages);
  std::vector<page_id> again;
  ASSERT_TRUE(a.allocate(2, 1, again, dirty));
  EXPECT_TRUE(dirty.empty());  // its own lines
  a.free(again);
  std::vector<page_id> other;
  ASSERT_TRUE(a.allocate(1, 2, other, dirty));
  EXPECT_EQ(dirty, other);
  a.distrust(dirty);  // could not be cleared
  a.free(other);
  dirty.clear();
  other.clear();
  ASSERT_TRUE(a.allocate(1, 2, other, dirty));
  EXPECT_EQ(dirty, other);
}

}  // namespace
}  // namespace kvern::gpu
