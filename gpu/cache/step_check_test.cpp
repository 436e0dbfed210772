#include "gpu/cache/step_check.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>

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
    EXPECT_EQ(lines.size(), 7u);
    return checked ? "" : checked.error().message;
  }

  step_check check_{{.vocab = 10, .context = 64, .pages = 6, .max_rows = 8}};
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

}  // namespace
}  // namespace kvern::gpu
