#include "gpu/cache/page_tables.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <utility>

namespace kvern::gpu {
namespace {

TEST(page_tables, layers_alike_share_one_table) {
  const page_tables tables = make_page_tables(std::vector<std::int32_t>(30, 0));
  EXPECT_EQ(tables.page_layers, 30);
  EXPECT_EQ(tables.windows, std::vector<std::int32_t>{0});
  for (std::int32_t layer = 0; layer < 30; ++layer)
    EXPECT_EQ(tables.layers[static_cast<std::size_t>(layer)], (layer_place{0, layer}));
}

TEST(page_tables, every_sixth_layer_global) {  // gemma3 270M
  std::vector<std::int32_t> windows;
  for (int layer = 0; layer < 18; ++layer) windows.push_back(layer % 6 == 5 ? 0 : 512);
  const page_tables tables = make_page_tables(windows);
  EXPECT_EQ(tables.page_layers, 3);
  EXPECT_EQ(tables.windows, (std::vector<std::int32_t>{0, 512, 512, 512, 512, 512}));
  EXPECT_EQ(tables.layers[5], (layer_place{0, 0}));
  EXPECT_EQ(tables.layers[17], (layer_place{0, 2}));
  EXPECT_EQ(tables.layers[0], (layer_place{1, 0}));
  EXPECT_EQ(tables.layers[3], (layer_place{2, 0}));
  EXPECT_EQ(tables.layers[6], (layer_place{2, 2}));
  EXPECT_EQ(tables.layers[16], (layer_place{5, 2}));
}

TEST(page_tables, every_second_layer_local) {  // gemma2 2B
  std::vector<std::int32_t> windows;
  for (int layer = 0; layer < 26; ++layer) windows.push_back(layer % 2 == 0 ? 4096 : 0);
  const page_tables tables = make_page_tables(windows);
  EXPECT_EQ(tables.page_layers, 13);
  EXPECT_EQ(tables.windows, (std::vector<std::int32_t>{0, 4096}));
  EXPECT_EQ(tables.layers[24], (layer_place{1, 12}));
}

TEST(page_tables, any_windows_fill_every_page_whole) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::int32_t> windows(1 + random() % 40);
    for (auto& window : windows) window = static_cast<std::int32_t>(random() % 3 * 128);
    const page_tables tables = make_page_tables(windows);
    ASSERT_GT(tables.page_layers, 0);
    EXPECT_EQ(tables.count() * tables.page_layers, static_cast<std::int32_t>(windows.size()));
    EXPECT_TRUE(std::is_sorted(tables.windows.begin(), tables.windows.end()));
    std::set<std::pair<std::int32_t, std::int32_t>> places;
    for (std::size_t layer = 0; layer < windows.size(); ++layer) {
      const layer_place at = tables.layers[layer];
      ASSERT_TRUE(at.table >= 0 && at.table < tables.count() && at.layer >= 0 && at.layer < tables.page_layers);
      EXPECT_EQ(tables.windows[static_cast<std::size_t>(at.table)], windows[layer]);
      EXPECT_TRUE(places.emplace(at.table, at.layer).second);
    }
  }
}

}  // namespace
}  // namespace kvern::gpu
