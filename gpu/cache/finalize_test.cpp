#include "gpu/cache/finalize.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <vector>

namespace kvern::gpu {
namespace {

constexpr cache_shape shape{.layers = 3, .kv_heads = 2, .head_dim = 4, .type = line_type::f16};
constexpr std::int32_t page_count = 6;

std::vector<std::byte> bytes_of(const page_memory& pages) {
  const std::byte* base = pages.lines(0, line_part::k).base;
  return {base, base + pages.bytes()};
}

step two_sequences() {
  step s;
  s.sequences = {{.pages = {4, 1}, .committed = 30}, {.pages = {2}, .committed = 0}};
  for (int p = 30; p < 35; ++p) s.rows.push_back({.token = 1, .position = p, .sequence = 0});
  for (int p = 0; p < 2; ++p) s.rows.push_back({.token = 1, .position = p, .sequence = 1});
  return s;
}

TEST(finalize, rows_go_where_the_tables_say) {
  std::vector<std::int64_t> lines;
  ASSERT_TRUE(locate_lines(two_sequences(), page_count, lines));
  EXPECT_EQ(lines, (std::vector<std::int64_t>{4 * 32 + 30, 4 * 32 + 31, 32, 33, 34, 64, 65}));
}

TEST(finalize, faulty_steps_are_refused) {
  std::vector<std::int64_t> lines;
  const auto code = [&](auto&& change) {
    step s = two_sequences();
    change(s);
    const auto located = locate_lines(s, page_count, lines);
    return located ? std::string() : located.error().code;
  };
  EXPECT_EQ(code([](step&) {}), "");
  EXPECT_EQ(code([](step& s) { s.rows[0].sequence = -1; }), "invalid_step");
  EXPECT_EQ(code([](step& s) { s.rows[0].sequence = 2; }), "invalid_step");
  EXPECT_EQ(code([](step& s) { s.rows[0].position = -1; }), "invalid_step");
  EXPECT_EQ(code([](step& s) { s.rows[4].position = 64; }), "page_out_of_range");
  EXPECT_EQ(code([](step& s) { s.rows[4].position = std::numeric_limits<std::int32_t>::max(); }), "page_out_of_range");
  EXPECT_EQ(code([](step& s) { s.sequences[1].pages.clear(); }), "page_out_of_range");
  EXPECT_EQ(code([](step& s) { s.sequences[1].pages[0] = -1; }), "page_out_of_range");
  EXPECT_EQ(code([](step& s) { s.sequences[1].pages[0] = page_count; }), "page_out_of_range");
  EXPECT_EQ(code([](step& s) { s.sequences[1].pages[0] = 1, s.rows[5].position = 2; }), "page_conflict");
  EXPECT_EQ(code([](step& s) { s.rows[6] = s.rows[5]; }), "page_conflict");
}

TEST(finalize, only_the_accepted_lines_change_and_all_layers_do) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 50; ++round) {
    auto pages = page_memory::create(shape, page_count, {.noise_seed = random()});
    auto staged = staging::create(shape, 8);
    ASSERT_TRUE(pages && staged);
    std::vector<std::byte> expected = bytes_of(*pages);
    const step s = two_sequences();
    for (int row = 0; row < 7; ++row)
      for (int layer = 0; layer < shape.layers; ++layer)
        for (const line_part part : {line_part::k, line_part::v}) {
          std::byte* line = staged->lines(layer, part).line(row);
          for (std::size_t i = 0; i < shape.part_bytes(); ++i) line[i] = static_cast<std::byte>(random());
        }
    std::vector<std::int64_t> lines;
    ASSERT_TRUE(locate_lines(s, page_count, lines));
    std::vector<line_move> moves;
    for (int row = 0; row < 7; ++row)
      if (random() % 2 == 0) moves.push_back({row, lines[static_cast<std::size_t>(row)]});

    // The layout, written out once more: [layer][k|v][page][line][kv_head][head_dim].
    for (const auto& move : moves)
      for (std::size_t layer = 0; layer < 3; ++layer)
        for (std::size_t part = 0; part < 2; ++part) {
          const std::size_t at = ((layer * 2 + part) * page_count * 32 + static_cast<std::size_t>(move.line)) * 16;
          std::memcpy(&expected[at],
                      staged->lines(static_cast<int>(layer), static_cast<line_part>(part)).line(move.row), 16);
        }
    if (round % 2 == 0) {
      commit_lines(*staged, moves, *pages);
    } else {  // layer by layer: the same pages
      for (int layer = 0; layer < shape.layers; ++layer) commit_lines(*staged, moves, layer, layer + 1, *pages);
    }
    EXPECT_EQ(bytes_of(*pages), expected);
  }
}

}  // namespace
}  // namespace kvern::gpu
