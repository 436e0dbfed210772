// Sequences that leave an engine as blocks of lines, and enter one.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "gpu/engine/engine_test_support.hpp"

namespace kvern::gpu {
namespace {

TEST(EngineImport, WhatIsExportedIsReusedWhereItIsImported) {
  for (const cache_layout layout : {cache_layout::paged, cache_layout::left, cache_layout::ring}) {
    harness from(windowed, {.layout = layout}), to({.context = 512, .pages = 120, .windows = {0, 64, 64}});
    from.submit(from.make(1, 1, "a", from.prompt(300), 5));
    from.run();
    const auto state = from.e->state_of(1);
    ASSERT_TRUE(state);
    ASSERT_TRUE(to.e->begin_import(7, "b", *state));
    turn early = next_turn(to, 1, 7, joined(from.prompt(300), {1}), 1);
    early.tenant = "b";
    EXPECT_EQ(to.e->submit(early).error().code, "busy");
    for (std::int32_t t = 0; t < 3; ++t)
      for (std::int32_t b = 0; b < 10; ++b)
        if (const auto lines = from.e->read_block(1, t, b)) {
          ASSERT_TRUE(to.e->import_block(7, *lines));
        }
    ASSERT_TRUE(to.e->end_import(7));
    EXPECT_EQ(to.e->describe(7)->reusable, 304);
    EXPECT_EQ(to.e->describe(7)->pages, 30);
    const auto prompt = joined(joined(from.prompt(300), from.tokens(1)), {3, 4});
    turn t = next_turn(to, 2, 7, prompt, 4);
    t.tenant = "b";
    to.submit(t);
    to.run();
    EXPECT_EQ(to.started(2).reused, 304);
    EXPECT_EQ(to.tokens(2), cold_answer(windowed, {}, prompt, 4));
  }
}

// Nobody can vouch for what a file says: its lines serve the sequence they were imported for, and no other.
TEST(EngineImport, ImportedLinesAreNotShared) {
  harness h;
  ASSERT_TRUE(h.e->begin_import(1, "a", {.tokens = h.prompt(64), .committed = 64}));
  const std::vector<std::byte> lies(32 * sizeof(std::uint64_t), std::byte{7});
  for (const std::int32_t block : {0, 1})
    ASSERT_TRUE(h.e->import_block(1, {.table = 0, .block = block, .lines = 32, .bytes = lies}));
  ASSERT_TRUE(h.e->end_import(1));
  const auto prompt = joined(h.prompt(64), h.prompt(40, 1));
  h.submit(next_turn(h, 1, 1, prompt, 3));
  h.run();
  EXPECT_EQ(h.started(1).reused, 64);
  EXPECT_NE(h.tokens(1), h.reference(prompt, 3)) << "its own client gets what its file says";
  ASSERT_TRUE(h.e->fork(1, 2, 100));
  h.submit(next_turn(h, 2, 2, prompt, 3));
  h.submit(h.make(3, 3, "a", prompt, 3));
  h.run();
  EXPECT_EQ(h.started(3).reused, 0);
  EXPECT_EQ(h.tokens(3), h.reference(prompt, 3));
  h.e->rewind(1, 0);
  h.submit(next_turn(h, 4, 1, prompt, 3));
  h.run();
  EXPECT_EQ(h.tokens(4), h.reference(prompt, 3)) << "with its lines gone it is as good as any";
}

TEST(EngineImport, ExportGivesWhatIsThere) {
  for (const cache_layout layout : {cache_layout::paged, cache_layout::left}) {
    harness h({.context = 128, .pages = 8}, {.layout = layout});
    h.submit(h.make(1, 1, "a", h.prompt(100), 4));
    h.run();
    ASSERT_TRUE(h.e->fork(1, 2, 103));
    EXPECT_EQ(h.e->state_of(2)->committed, layout == cache_layout::paged ? 103 : 0) << "a fork without a slot yet";
    h.submit(h.make(2, 3, "a", h.prompt(120, 1), 8));
    h.submit(h.make(3, 4, "a", h.prompt(120, 2), 8));
    h.run();
    const auto state = h.e->state_of(1);
    EXPECT_EQ(state->committed, 0) << "evicted";
    EXPECT_EQ(h.e->describe(1)->committed, 0);
  }
}

TEST(EngineImport, AnImportIsCheckedBeforeAnythingIsTouched) {
  harness h;
  const auto code = [&](sequence_state s) {
    const auto r = h.e->begin_import(1, "a", std::move(s));
    return r ? std::string() : r.error().code;
  };
  EXPECT_EQ(code({.tokens = {1, 2}, .committed = 3}), "invalid_request");
  EXPECT_EQ(code({.tokens = {1, 2}, .committed = -1}), "invalid_request");
  EXPECT_EQ(code({.tokens = {1, 64}, .committed = 1}), "invalid_request");
  EXPECT_EQ(code({.tokens = {1, -1}, .committed = 1}), "invalid_request");
  EXPECT_EQ(code({.tokens = h.prompt(513), .committed = 513}), "session_file_mismatch");
  EXPECT_EQ(code({.tokens = {1}, .committed = 1, .rotate = {.keep = 1, .ring = 99}}), "session_file_mismatch");
  EXPECT_EQ(h.e->stats().sequences, 0);
  EXPECT_EQ(code({.tokens = h.prompt(40), .committed = 40}), "");
  EXPECT_EQ(code({.tokens = h.prompt(40), .committed = 40}), "invalid_request") << "it exists";
  const auto block = [&](std::int32_t table, std::int32_t number, std::int32_t lines) {
    return h.e->import_block(1, {.table = table, .block = number, .lines = lines, .bytes = {}}).error().code;
  };
  EXPECT_EQ(block(1, 0, 32), "invalid_request");
  EXPECT_EQ(block(-1, 0, 32), "invalid_request");
  EXPECT_EQ(block(0, 2, 32), "invalid_request");
  EXPECT_EQ(block(0, 1, 32), "invalid_request") << "8 lines are left";
  EXPECT_EQ(h.e->end_import(2).error().code, "not_found");
  EXPECT_EQ(h.e->stats().pages_used, 0);
}

TEST(EngineImport, AnImportTakesOneSlotAndNoMore) {
  harness from({.context = 128, .pages = 8}), to({.context = 128, .pages = 8}, {.layout = cache_layout::left});
  from.submit(from.make(1, 1, "a", from.prompt(100), 5));
  from.run();
  for (const sequence_id id : {1, 2}) {  // both slots hold an idle sequence
    to.submit(to.make(id, id, "a", to.prompt(60, id), 1));
    to.run();
  }
  ASSERT_TRUE(to.e->begin_import(7, "a", *from.e->state_of(1)));
  for (const std::int32_t block : {3, 2, 1, 0}) ASSERT_TRUE(to.e->import_block(7, *from.e->read_block(1, 0, block)));
  ASSERT_TRUE(to.e->end_import(7));
  EXPECT_EQ(to.e->describe(7)->reusable, 104);
  EXPECT_EQ(to.e->describe(1)->reusable, 0);
  EXPECT_EQ(to.e->describe(2)->reusable, 60) << "the other's slot";
}

}  // namespace
}  // namespace kvern::gpu
