#include "gpu/engine/sequence_table.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace kvern::gpu {
namespace {

class SequenceTable : public testing::Test {
 protected:
  static backend_info info(std::int32_t pages, std::vector<std::int32_t> windows) {
    backend_info out;
    out.context = 512;
    out.pages = pages;
    out.windows = std::move(windows);
    return out;
  }

  SequenceTable() : SequenceTable(20, {0}) {}
  SequenceTable(std::int32_t pages, std::vector<std::int32_t> windows)
      : table(cache_geometry(info(pages, std::move(windows)), cache_layout::paged)) {
    tenant.domain = 1;
    tenant.secret = make_secret();
  }

  static std::vector<token_id> tokens(std::int32_t count) {
    std::vector<token_id> out(static_cast<std::size_t>(count));
    std::iota(out.begin(), out.end(), 0);
    return out;
  }

  /// A running sequence with `lines` committed lines of the tokens 0, 1, 2, ...
  sequence& grown(sequence_id id, std::int32_t lines) {
    sequence& s = table.create(id, tenant);
    table.start(s, {}, {});
    s.tokens = tokens(lines);
    sequence_table::preparation todo;
    EXPECT_TRUE(table.extend(s, lines, 1000, todo));
    s.committed = lines;
    return s;
  }

  reuse find(const sequence* s, std::int32_t prompt) const {
    const auto t = tokens(prompt);
    return table.find_reuse(tenant, s, t, prompt, hash_blocks(t, tenant.secret), {});
  }

  sequence_table table;
  tenant_account tenant;
};

TEST_F(SequenceTable, OwnLinesAreReusedToTheLastPartOfAPage) {
  sequence& s = grown(1, 70);
  table.stop(s, idle_rank::unused);
  const reuse found = find(&s, 100);
  EXPECT_EQ(found.lines, 70);
  EXPECT_EQ(found.shared, 0);
  EXPECT_EQ(found.held, 3);
  EXPECT_EQ(found.idle, 3);
  EXPECT_EQ(found.copies, 0);
  EXPECT_EQ(find(&s, 50).lines, 49) << "the last token runs";
  EXPECT_EQ(find(&s, 50).surplus, 1);
}

TEST_F(SequenceTable, EvictionTakesTheTailOfTheOldestAndLeavesStaleClaims) {
  sequence& a = grown(1, 64);
  sequence& b = grown(2, 64);
  table.stop(a, idle_rank::unused);
  table.stop(b, idle_rank::unused);
  EXPECT_EQ(table.evict(tenant, 1), 1);
  EXPECT_EQ(table.page(a, 0, 1), no_page);
  EXPECT_NE(table.page(a, 0, 0), no_page);
  EXPECT_EQ(find(&a, 100).lines, 32);
  EXPECT_EQ(find(&b, 100).lines, 64);
  EXPECT_EQ(table.evict(tenant, 10), 3);
  EXPECT_EQ(tenant.frames.frames, 0);
  EXPECT_TRUE(table.pool().consistent());
}

TEST_F(SequenceTable, PublishedPagesServeANewSequenceAndOutliveTheirOwn) {
  sequence& s = grown(1, 70);
  table.publish(s, hash_blocks(s.tokens, tenant.secret), 70);
  EXPECT_EQ(table.index().size(), 2U) << "full pages only";
  table.stop(s, idle_rank::unused);
  table.erase(s);
  EXPECT_EQ(tenant.frames.frames, 2);
  const reuse found = find(nullptr, 100);
  EXPECT_EQ(found.lines, 64);
  EXPECT_EQ(found.shared, 64);
  EXPECT_EQ(find(nullptr, 64).lines, 63);
  EXPECT_EQ(find(nullptr, 64).copies, 1) << "its last line will be written into a shared page";
}

TEST_F(SequenceTable, TwoCopiesOfAPageBecomeOne) {
  sequence& a = grown(1, 64);
  sequence& b = grown(2, 64);
  const auto chain = hash_blocks(a.tokens, tenant.secret);
  table.publish(a, chain, 64);
  table.publish(b, chain, 64);
  EXPECT_EQ(tenant.frames.frames, 2);
  EXPECT_EQ(table.page(a, 0, 1), table.page(b, 0, 1));
  EXPECT_EQ(table.pool().shared(), 2);
  EXPECT_TRUE(table.pool().consistent());
}

TEST_F(SequenceTable, WritingBehindASharedPageCopiesIt) {
  sequence& a = grown(1, 40);
  sequence& b = table.create(2, tenant);
  table.fork(a, b, 40, 40);
  EXPECT_EQ(table.copies_before_write(a), 1);
  const page_id shared = table.page(a, 0, 1);
  sequence_table::preparation todo;
  ASSERT_TRUE(table.extend(a, 41, 1, todo));
  ASSERT_EQ(todo.copies.size(), 1U);
  EXPECT_EQ(todo.copies[0].from, shared);
  EXPECT_EQ(todo.copies[0].to, table.page(a, 0, 1));
  EXPECT_EQ(todo.copies[0].lines, 8);
  EXPECT_EQ(table.page(b, 0, 1), shared);
  EXPECT_EQ(table.copies_before_write(a), 0);
  EXPECT_TRUE(table.pool().consistent());
}

TEST_F(SequenceTable, APreparationGivenUpLosesTheLinesAtStake) {
  sequence& a = grown(1, 40);
  sequence& b = table.create(2, tenant);
  table.fork(a, b, 40, 40);
  sequence_table::preparation todo;
  ASSERT_TRUE(table.extend(a, 41, 1, todo));
  table.abandon(todo);
  EXPECT_EQ(a.committed, 32);
  EXPECT_EQ(b.committed, 40);
}

TEST_F(SequenceTable, WithoutRoomASharedPageThatNobodyElseUsesIsSeized) {
  sequence& a = grown(1, 20 * 32 - 5);
  sequence& b = table.create(2, tenant);
  table.fork(a, b, 20 * 32 - 5, 20 * 32 - 5);
  EXPECT_EQ(table.pool().free_frames(), 0);
  EXPECT_EQ(table.copies_before_write(a), 0);
  sequence_table::preparation todo;
  ASSERT_TRUE(table.extend(a, 20 * 32 - 4, 0, todo));
  EXPECT_TRUE(todo.copies.empty());
  EXPECT_EQ(table.page(b, 0, 19), no_page);
  EXPECT_NE(table.page(b, 0, 18), no_page);
  EXPECT_TRUE(table.pool().consistent());
}

TEST_F(SequenceTable, PagesOfAnotherDomainAreToBeCleared) {
  sequence& s = grown(1, 64);
  table.stop(s, idle_rank::unused);
  table.erase(s);
  tenant_account other;
  other.domain = 2;
  sequence& t = table.create(2, other);
  table.start(t, {}, {});
  sequence_table::preparation todo;
  ASSERT_TRUE(table.extend(t, 96, 3, todo));
  EXPECT_EQ(todo.clear.size(), 2U);
}

class WindowedTable : public SequenceTable {
 protected:
  WindowedTable() : SequenceTable(60, {0, 64}) {}
};

TEST_F(WindowedTable, PagesBehindTheWindowAreIdleAndGoFirst) {
  sequence& s = grown(1, 200);
  table.trim(s);
  EXPECT_EQ(tenant.frames.idle, 4) << "blocks 0 to 3 of the windowed table: the next row sees 137 on";
  EXPECT_EQ(table.evict(tenant, 2), 2);
  EXPECT_EQ(table.page(s, 1, 0), no_page);
  EXPECT_NE(table.page(s, 0, 0), no_page);
  table.stop(s, idle_rank::unused);
  EXPECT_EQ(find(&s, 300).lines, 200) << "what the next row sees is there";
  // A row further up sees what is gone: reused is the last position that sees only what is there.
  EXPECT_EQ(find(&s, 150).lines, 149);
  EXPECT_EQ(find(&s, 100).lines, 0);
}

}  // namespace
}  // namespace kvern::gpu
