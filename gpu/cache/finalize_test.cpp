#include "gpu/cache/finalize.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

namespace kvern::gpu {
namespace {

constexpr std::int32_t page_count = 9;
constexpr std::int32_t max_rows = 8;

/// Bytes of a part wherever it lies.
std::vector<std::byte> part_of(const line_run& run, std::int64_t line, const cache_shape& shape) {
  return {run.line(line), run.line(line) + shape.part_bytes()};
}

/// Random rows to random lines, in parts or at once: every accepted row's part is where its table says, and every other
/// line is what it was.
TEST(finalize, only_the_accepted_lines_change_in_all_layers_tables_and_shards) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::int32_t> windows(1 + random() % 6);
    for (auto& window : windows) window = static_cast<std::int32_t>(random() % 2 * 64);
    const page_tables tables = make_page_tables(windows);
    const auto layers = static_cast<std::int32_t>(windows.size());
    cache_shape shape{.layers = layers, .kv_heads = 3, .head_dim = 5, .type = static_cast<line_type>(random() % 4)};
    const auto shards = static_cast<std::int32_t>(1 + random() % 3);
    auto staged = staging::create(shape, max_rows, {.stacked = random() % 2 == 0, .shards = shards});
    shape.layers = tables.page_layers;
    const auto noise = random();
    const page_memory_options how{.stacked = random() % 2 == 0, .shards = shards, .noise_seed = noise};
    auto pages = page_memory::create(shape, page_count, how);
    auto before = page_memory::create(shape, page_count, how);
    ASSERT_TRUE(staged && pages && before);
    for (std::int32_t s = 0; s < shards; ++s)
      for (std::int32_t layer = 0; layer < layers; ++layer)
        for (const line_part part : {line_part::k, line_part::v})
          for (std::int32_t row = 0; row < max_rows; ++row) {
            std::byte* line = staged->lines(s, layer, part).line(row);
            for (std::size_t i = 0; i < staged->shard(s).part_bytes(); ++i) line[i] = static_cast<std::byte>(random());
          }

    // Distinct lines for all rows and tables.
    std::vector<std::int64_t> lines(page_count * page_lines);
    std::iota(lines.begin(), lines.end(), 0);
    std::shuffle(lines.begin(), lines.end(), random);
    lines.resize(static_cast<std::size_t>(max_rows * tables.count()));
    std::vector<std::int32_t> rows;
    for (std::int32_t row = 0; row < max_rows; ++row)
      if (random() % 2 == 0) rows.push_back(row);

    for (std::int32_t s = 0; s < shards; ++s)
      if (round % 2 == 0) {
        commit_lines(*staged, tables, {rows, lines, 0, layers, s}, *pages);
      } else {  // by layer and row: the same pages
        for (std::int32_t layer = layers; layer-- > 0;)
          for (const std::int32_t& row : rows)
            commit_lines(*staged, tables, {{&row, 1}, lines, layer, layer + 1, s}, *pages);
      }

    for (std::int32_t s = 0; s < shards; ++s)
      for (std::int32_t layer = 0; layer < layers; ++layer)
        for (const line_part part : {line_part::k, line_part::v}) {
          const layer_place place = tables.layers[static_cast<std::size_t>(layer)];
          for (std::int64_t line = 0; line < page_count * page_lines; ++line) {
            std::vector<std::byte> expected = part_of(before->lines(s, place.layer, part), line, before->shard(s));
            const auto at = std::find(lines.begin(), lines.end(), line) - lines.begin();
            const auto row = static_cast<std::int32_t>(at / tables.count());
            const bool somebodys = at < static_cast<std::ptrdiff_t>(lines.size());
            if (somebodys && at % tables.count() != place.table) continue;  // compared with that table's layers
            if (somebodys && std::count(rows.begin(), rows.end(), row) > 0)
              expected = part_of(staged->lines(s, layer, part), row, staged->shard(s));
            ASSERT_EQ(part_of(pages->lines(s, place.layer, part), line, pages->shard(s)), expected);
          }
        }
  }
}

}  // namespace
}  // namespace kvern::gpu
