#include "gpu/cache/page_tables.hpp"

#include <cstddef>
#include <map>
#include <numeric>

namespace kvern::gpu {

page_tables make_page_tables(std::span<const std::int32_t> windows) {
  std::map<std::int32_t, std::vector<std::size_t>> groups;  // layers by window
  for (std::size_t layer = 0; layer < windows.size(); ++layer) groups[windows[layer]].push_back(layer);
  page_tables tables;
  tables.layers.resize(windows.size());
  for (const auto& [window, layers] : groups)
    tables.page_layers = std::gcd(tables.page_layers, static_cast<std::int32_t>(layers.size()));
  for (const auto& [window, layers] : groups)
    for (std::size_t n = 0; n < layers.size(); ++n) {
      const std::int32_t within = static_cast<std::int32_t>(n) % tables.page_layers;
      if (within == 0) tables.windows.push_back(window);
      tables.layers[layers[n]] = {tables.count() - 1, within};
    }
  return tables;
}

}  // namespace kvern::gpu
