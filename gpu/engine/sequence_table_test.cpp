#include "gpu/engine/sequence_table.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace kvern::gpu {
namespace {

class SequenceTable : public testing::Test {
 protected:
  sequence& filled(sequence_id id, std::int32_t lines) {
    sequence& s = table.create(id, tenant);
    std::vector<page_id> dirty;
    EXPECT_TRUE(table.extend(s, pages_for(lines), dirty));
    s.tokens.resize(static_cast<std::size_t>(lines), 1);
    s.committed = lines;
    return s;
  }

  tenant_account tenant{.name = "a", .domain = 1};
  sequence_table table{8};
};

TEST_F(SequenceTable, PagesForRoundsUp) {
  EXPECT_EQ(pages_for(0), 0);
  EXPECT_EQ(pages_for(1), 1);
  EXPECT_EQ(pages_for(32), 1);
  EXPECT_EQ(pages_for(33), 2);
}

TEST_F(SequenceTable, RewindKeepsAPartlyFilledPage) {
  sequence& s = filled(1, 90);
  const page_id second = s.pages[1];
  table.rewind(s, 33);
  EXPECT_EQ(s.committed, 33);
  EXPECT_EQ(s.tokens.size(), 33U);
  ASSERT_EQ(s.pages.size(), 2U);
  EXPECT_EQ(s.pages[1], second);
  EXPECT_EQ(table.free_pages(), 6);
  EXPECT_EQ(tenant.pages, 2);
  table.rewind(s, 200);  // no longer than it is
  EXPECT_EQ(s.committed, 33);
}

TEST_F(SequenceTable, EvictsFromTheTailOldestUseFirst) {
  sequence& old = filled(1, 64);
  sequence& recent = filled(2, 64);
  sequence& awaited = filled(3, 64);
  sequence& running = filled(4, 64);
  table.set_idle(awaited, true);
  table.set_idle(old, false);
  table.set_idle(recent, false);
  table.set_idle(running, false);
  table.set_running(running);
  EXPECT_EQ(tenant.idle_pages, 6);
  EXPECT_EQ(table.evict(tenant, 3), 3);
  EXPECT_EQ(old.committed, 0);
  EXPECT_EQ(recent.committed, 32);
  EXPECT_EQ(recent.tokens.size(), 32U);
  EXPECT_EQ(table.evict(tenant, 100), 3);
  EXPECT_EQ(awaited.committed, 0);
  EXPECT_EQ(running.committed, 64);
  EXPECT_EQ(tenant.idle_pages, 0);
  EXPECT_EQ(tenant.pages, 2);
}

TEST_F(SequenceTable, EvictionOfAPartlyFilledPageTakesItsLinesOnly) {
  sequence& s = filled(1, 70);
  table.set_idle(s, false);
  EXPECT_EQ(table.evict(tenant, 1), 1);
  EXPECT_EQ(s.committed, 64);
}

TEST_F(SequenceTable, EraseFreesEverything) {
  table.set_idle(filled(1, 64), false);
  filled(2, 10);
  table.erase(*table.find(1));
  table.erase(*table.find(2));
  EXPECT_EQ(table.find(1), nullptr);
  EXPECT_EQ(table.free_pages(), 8);
  EXPECT_EQ(tenant.sequences, 0);
  EXPECT_EQ(tenant.pages, 0);
  EXPECT_EQ(tenant.idle_pages, 0);
  EXPECT_TRUE(tenant.idle.empty());
}

TEST_F(SequenceTable, ExtendIsAllOrNothing) {
  sequence& s = filled(1, 10);
  std::vector<page_id> dirty;
  EXPECT_FALSE(table.extend(s, 8, dirty));
  EXPECT_EQ(s.pages.size(), 1U);
  EXPECT_EQ(tenant.pages, 1);
}

}  // namespace
}  // namespace kvern::gpu
