#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvern::gpu {

/// Where the lines of a model's layer lie: in pages of table `table`, as layer `layer` of the page.
struct layer_place {
  std::int32_t table = 0;
  std::int32_t layer = 0;

  friend bool operator==(const layer_place&, const layer_place&) = default;
};

/// How the layers of a model are spread over page tables. The layers of one window form a group; a page holds
/// `page_layers` layers of one group, so all pages are alike, and a group of L layers has L / page_layers tables.
/// Tables and the layers within them follow the windows, none first and then ascending, and the layers' order.
struct page_tables {
  std::int32_t page_layers = 0;
  std::vector<std::int32_t> windows;  ///< [table]
  std::vector<layer_place> layers;    ///< [layer of the model]

  std::int32_t count() const { return static_cast<std::int32_t>(windows.size()); }
};

/// `windows`: of every layer, 0 for none; at least one layer.
page_tables make_page_tables(std::span<const std::int32_t> windows);

}  // namespace kvern::gpu
