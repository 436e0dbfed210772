#include "gpu/cache/step_check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>

namespace kvern::gpu {
namespace {

constexpr auto largest = std::numeric_limits<std::int32_t>::max();
constexpr auto smallest = std::numeric_limits<std::int32_t>::min();

step good_step() {
  step s;
  s.sequences = {{.pages = {4, 1}, .committed = 30}, {.pages = {2}, .committed = 0}};
  for (int p = 30; p < 35; ++p) s.rows.push_back({.token = 9, .position = p, .sequence = 0});
  for (int p = 0; p < 2; ++p) s.rows.push_back({.token = 0, .position = p, .sequence = 1});
  return s;
}

class step_check_test : public testing::Test {
 protected:
  /// The message of the refusal, empty when the changed step passes. A good step must pass afterwards: no state stays.
  template <class F>
  std::string refusal(F&& change) {
    step s = good_step();
    change(s);
    std::vector<std::int64_t> lines;
    const auto checked = check_.check(s, lines);
    EXPECT_EQ(checked ? "invalid_step" : checked.error().code, "invalid_step");
    const auto again = check_.check(good_step(), lines);
    EXPECT_TRUE(again) << again.error().message;
    EXPECT_EQ(lines, (std::vector<std::int64_t>{4 * 32 + 30, 4 * 32 + 31, 32, 33, 34, 64, 65}));
    return checked ? "" : checked.error().message;
  }

  step_check check_{{.vocab = 10, .context = 64, .max_position = 1000, .pages = 6, .max_rows = 8}};
};

TEST_F(step_check_test, a_good_step_passes) {
  EXPECT_EQ(refusal([](step&) {}), "");
  EXPECT_EQ(refusal([](step& s) { s.sequences.push_back({.pages = {4}, .committed = 3}); }), "");
}

TEST_F(step_check_test, rows_out_of_range) {
  EXPECT_NE(refusal([](step& s) { s.rows.clear(); }), "");
  EXPECT_NE(refusal([](step& s) {
              for (int p = 2; p < 4; ++p) s.rows.push_back({.token = 0, .position = p, .sequence = 1});
            }),
            "");
  for (const token_id bad : {-1, 10, largest, smallest}) {
    EXPECT_NE(refusal([&](step& s) { s.rows[3].token = bad; }), "");
    EXPECT_NE(refusal([&](step& s) { s.rows[3].position = bad; }), "");
  }
  for (const std::int32_t bad : {-1, 2, largest, smallest})
    EXPECT_NE(refusal([&](step& s) { s.rows[3].sequence = bad; }), "");
  for (const std::int32_t bad : {-1, 65, largest, smallest})
    EXPECT_NE(refusal([&](step& s) { s.sequences[0].committed = bad; }), "");
}

TEST_F(step_check_test, positions_end_at_the_context) {
  const auto at = [](std::int32_t committed) {
    return [committed](step& s) {
      s.sequences[0].committed = committed;
      for (int r = 0; r < 5; ++r) s.rows[static_cast<std::size_t>(r)].position = committed + r;
    };
  };
  EXPECT_EQ(refusal(at(59)), "");
  EXPECT_NE(refusal(at(60)), "");
}

TEST_F(step_check_test, rows_of_a_sequence_are_consecutive) {
  EXPECT_NE(refusal([](step& s) { s.rows[1].position = 32; }), "");
  EXPECT_NE(refusal([](step& s) { std::swap(s.rows[4], s.rows[5]); }), "");
  EXPECT_NE(refusal([](step& s) { s.rows.erase(s.rows.begin()); }), "");
}

TEST_F(step_check_test, pages_must_be_there) {
  EXPECT_NE(refusal([](step& s) { s.sequences[0].pages.pop_back(); }), "");
  for (const page_id bad : {-1, 6, largest, smallest}) {
    EXPECT_NE(refusal([&](step& s) { s.sequences[0].pages[0] = bad; }), "");
    EXPECT_NE(refusal([&](step& s) { s.sequences[0].pages[1] = bad; }), "");
  }
  // A page that the step does not need may be anything.
  EXPECT_EQ(refusal([](step& s) { s.sequences[1].pages.push_back(-1); }), "");
}

TEST_F(step_check_test, committed_lines_are_never_overwritten) {
  // Sequence 1 would write lines 0 and 1 of page 4, which hold positions 0 and 1 of sequence 0.
  EXPECT_NE(refusal([](step& s) { s.sequences[1].pages[0] = 4; }), "");
  // A sequence without rows counts as well.
  EXPECT_NE(refusal([](step& s) { s.sequences.push_back({.pages = {2}, .committed = 1}); }), "");
  // One page twice in a table.
  EXPECT_NE(refusal([](step& s) { s.sequences[0].pages = {4, 4}; }), "");
  // Two sequences that write one line.
  EXPECT_NE(refusal([](step& s) { s.sequences[1].pages[0] = 1; }), "");
}

TEST_F(step_check_test, a_committed_page_may_be_shared) {
  EXPECT_EQ(refusal([](step& s) {
              s.sequences[1] = {.pages = {4, 2}, .committed = 32};
              s.sequences[0] = {.pages = {4, 1}, .committed = 32};
              for (int r = 0; r < 7; ++r) s.rows[static_cast<std::size_t>(r)].position = 32 + (r < 5 ? r : r - 5);
            }),
            "");
}

/// Two rows of one sequence at `committed`, in blocks whose pages are `pages`.
step rotating(std::int32_t committed, rotation rotate, std::vector<page_id> pages) {
  step s;
  s.sequences = {{.pages = std::move(pages), .committed = committed, .rotate = rotate}};
  for (int r = 0; r < 2; ++r) s.rows.push_back({.token = 0, .position = committed + r, .sequence = 0});
  return s;
}

TEST_F(step_check_test, a_sequence_that_rotates_passes_the_context_and_ends_at_the_last_position) {
  const auto passes = [&](const step& s) { return refusal([&](step& changed) { changed = s; }).empty(); };
  const std::vector<page_id> ten = {0, no_page, no_page, no_page, no_page, no_page, no_page, no_page, 3, 2};
  EXPECT_TRUE(passes(rotating(290, {.keep = 1, .ring = 1}, ten)));
  EXPECT_FALSE(passes(rotating(290, {}, ten)));
  std::vector<page_id> far(32, no_page);
  far[0] = 5, far[31] = 1;
  EXPECT_TRUE(passes(rotating(998, {.keep = 1, .ring = 1}, far)));
  EXPECT_FALSE(passes(rotating(999, {.keep = 1, .ring = 1}, far)));
  // What it keeps must be there; what it forgot may be anything, and be written to.
  far[0] = no_page;
  EXPECT_FALSE(passes(rotating(998, {.keep = 1, .ring = 1}, far)));
  EXPECT_TRUE(passes(rotating(998, {.keep = 0, .ring = 1}, far)));
  far[30] = 1;
  EXPECT_TRUE(passes(rotating(998, {.keep = 0, .ring = 1}, far)));
  EXPECT_FALSE(passes(rotating(998, {.keep = 0, .ring = 2}, far)));
  for (const std::int32_t bad : {-1, 3, largest, smallest}) {
    EXPECT_FALSE(passes(rotating(998, {.keep = bad, .ring = 1}, far)));
    EXPECT_FALSE(passes(rotating(998, {.keep = 0, .ring = bad}, far)));
  }
}

TEST(step_check, a_table_with_a_window_needs_the_blocks_in_it) {
  step_check check({.vocab = 10, .context = 128, .max_position = 128, .pages = 20, .max_rows = 8, .windows = {0, 40}});
  std::vector<std::int64_t> lines;
  // Position 100 reaches back to 61: of the second table blocks 1, 2 and 3.
  step s = {.rows = {{.position = 100}}, .sequences = {{.pages = {0, 1, 2, 3, no_page, 5, 6, 7}, .committed = 100}}};
  ASSERT_TRUE(check.check(s, lines));
  EXPECT_EQ(lines, (std::vector<std::int64_t>{3 * 32 + 4, 7 * 32 + 4}));
  for (const std::size_t needed : {0, 1, 2, 3, 5, 6, 7}) {
    step bad = s;
    bad.sequences[0].pages[needed] = no_page;
    EXPECT_FALSE(check.check(bad, lines)) << needed;
  }
  // Lines before the window are nobody's; those in it are not to be written.
  s.sequences[0].pages[7] = 5;  // the row would write line 4 of the page that holds positions 61 to 63 as 29 to 31
  EXPECT_TRUE(check.check(s, lines));
  s.rows[0].position = s.sequences[0].committed = 61;  // line 29
  s.sequences[0].pages = {0, 1, 2, 3, 4, 5, 6, 7};
  s.sequences.push_back({.pages = {8, 9, 10, 11, 12, 5, 14, 15}, .committed = 101});
  EXPECT_TRUE(check.check(s, lines));  // the second sequence's next row begins at position 62
  s.sequences[1].committed = 100;
  EXPECT_FALSE(check.check(s, lines));
  // A page of one table is not to be written by way of another.
  s.sequences.pop_back();
  s.sequences[0].pages[5] = 1;
  EXPECT_FALSE(check.check(s, lines));
  // Tables of different lengths cannot be.
  s.sequences[0].pages = {0, 1, 2, 3, 4, 5, 6};
  EXPECT_FALSE(check.check(s, lines));
}

/// The rules once more, slowly: position by position of every row.
bool sound(const step& s, const step_limits& limits) {
  std::set<std::pair<page_id, std::int32_t>> seen, written;
  const std::size_t tables = limits.windows.size();
  for (std::size_t n = 0; n < s.sequences.size(); ++n) {
    const step_sequence& q = s.sequences[n];
    if (q.pages.size() % tables != 0) return false;
    const std::size_t blocks = q.pages.size() / tables;
    for (std::size_t t = 0; t < tables; ++t) {
      const auto place = [&](std::int32_t position) -> std::pair<page_id, std::int32_t> {
        const auto block = static_cast<std::size_t>(position / page_lines);
        return {block < blocks ? q.pages[t * blocks + block] : no_page, position % page_lines};
      };
      const auto see = [&](std::int32_t position) {
        const visible_keys keys = visible(q.rotate, limits.windows[t], position);
        for (std::int32_t p = 0; p < q.committed; ++p)
          if ((p >= keys.kept_begin && p < keys.kept_end) || p >= keys.first) seen.insert(place(p));
      };
      bool rows = false;
      for (const step_row& row : s.rows)
        if (static_cast<std::size_t>(row.sequence) == n) {
          see(row.position);
          if (!written.insert(place(row.position)).second) return false;
          rows = true;
        }
      if (!rows) see(q.committed);
    }
  }
  const auto in_range = [&](const auto& line) { return line.first >= 0 && line.first < limits.pages; };
  return std::all_of(seen.begin(), seen.end(), in_range) && std::all_of(written.begin(), written.end(), in_range) &&
         std::none_of(written.begin(), written.end(), [&](const auto& line) { return seen.contains(line); });
}

TEST(step_check, random_steps_are_judged_as_position_by_position) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const auto below = [&](std::int32_t n) { return static_cast<std::int32_t>(random() % static_cast<unsigned>(n)); };
  int passed = 0;
  for (int round = 0; round < 5'000; ++round) {
    step_limits limits{.vocab = 10, .context = 160, .max_position = 400, .pages = 40, .max_rows = 200};
    limits.windows.resize(static_cast<std::size_t>(1 + below(3)));
    for (auto& window : limits.windows) window = below(2) * (1 + below(70));
    std::sort(limits.windows.begin(), limits.windows.end());
    step_check check(limits);
    step s;
    std::vector<page_id> ids(static_cast<std::size_t>(limits.pages));
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<page_id>(i);
    std::shuffle(ids.begin(), ids.end(), random);
    for (std::int32_t n = 0; n < 1 + below(2); ++n) {
      step_sequence q;
      if (below(2) == 0) q.rotate = {.keep = below(2), .ring = 1 + below(2)};
      q.committed = below(q.rotate.ring > 0 ? 350 : 120);
      const std::int32_t rows = below(40);
      for (std::int32_t r = 0; r < rows; ++r)
        s.rows.push_back({.token = 0, .position = q.committed + r, .sequence = n});
      const std::int32_t blocks = (q.committed + rows + page_lines - 1) / page_lines + below(2);
      for (const std::int32_t window : limits.windows)
        for (std::int32_t b = 0; b < blocks; ++b) {
          const visible_keys keys = visible(q.rotate, window, q.committed);
          const std::int32_t last = (b + 1) * page_lines - 1;
          const bool needed = last >= keys.first || (b * page_lines < keys.kept_end && last >= keys.kept_begin);
          const bool odd = below(100) == 0;
          if (needed != odd && !ids.empty()) {
            q.pages.push_back(ids.back());
            if (below(100) > 0) ids.pop_back();
          } else {
            q.pages.push_back(no_page);
          }
        }
      s.sequences.push_back(q);
    }
    if (s.rows.empty()) continue;
    std::vector<std::int64_t> lines;
    const auto checked = check.check(s, lines);
    ASSERT_EQ(checked.has_value(), sound(s, limits))
        << "round " << round << ": " << (checked ? "passed" : checked.error().message);
    passed += checked ? 1 : 0;
    if (!checked) continue;
    ASSERT_EQ(lines.size(), s.rows.size() * limits.windows.size());
    for (std::size_t r = 0, at = 0; r < s.rows.size(); ++r)
      for (std::size_t t = 0; t < limits.windows.size(); ++t, ++at) {
        const auto& pages = s.sequences[static_cast<std::size_t>(s.rows[r].sequence)].pages;
        const std::size_t block = static_cast<std::size_t>(s.rows[r].position / page_lines);
        EXPECT_EQ(lines[at],
                  pages[t * (pages.size() / limits.windows.size()) + block] * page_lines + s.rows[r].position % 32);
      }
  }
  EXPECT_GT(passed, 500);
}

}  // namespace
}  // namespace kvern::gpu
