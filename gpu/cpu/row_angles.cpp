#include "gpu/cpu/row_angles.hpp"

#include <utility>

namespace kvern::gpu::cpu {

result<row_angles> row_angles::create(const decoder_config& config, std::int32_t context, std::int32_t max_rows) {
  row_angles made;
  std::vector<const rope_config*> ropes{&config.rope};
  if (config.local_rope) ropes.push_back(&*config.local_rope);
  for (const rope_config* rope : ropes) {
    auto table = rope_table::create(*rope, context);
    if (!table) return std::unexpected(std::move(table.error()));
    made.tables_.push_back(std::move(*table));
  }
  for (const std::int32_t window : config.window) made.table_of_.push_back(window > 0 ? ropes.size() - 1 : 0);
  made.max_rows_ = static_cast<std::size_t>(max_rows);
  made.found_.resize(ropes.size() * made.max_rows_);
  auto far = memory_block::create(made.found_.size() * static_cast<std::size_t>(config.rope.dims) * sizeof(float),
                                  "the rotations of a step");
  if (!far) return std::unexpected(std::move(far.error()));
  made.far_ = std::move(*far);
  return made;
}

void row_angles::find(const step& s) {
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const rope_table& table = tables_[t];
    for (std::size_t row = 0; row < s.rows.size(); ++row) {
      const std::int32_t position = s.rows[row].position;
      const std::size_t at = t * max_rows_ + row;
      if (position < table.context()) {
        found_[at] = table.angles(position);
        continue;
      }
      float* const computed = far_.as<float>() + at * 2 * static_cast<std::size_t>(table.half());
      table.compute(position, computed);
      found_[at] = computed;
    }
  }
}

}  // namespace kvern::gpu::cpu
