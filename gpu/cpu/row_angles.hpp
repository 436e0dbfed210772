#pragma once

#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "gpu/backend.hpp"
#include "gpu/cache/memory_block.hpp"
#include "gpu/cpu/decoder_config.hpp"
#include "gpu/cpu/rope_table.hpp"

namespace kvern::gpu::cpu {

/// The rotations of a step's rows: from tables of a context's positions, computed anew for rows beyond it. Nothing is
/// allocated after create. Not thread-safe while `find` runs.
class row_angles {
 public:
  /// For steps of up to `max_rows` rows. Errors: `out_of_memory`.
  static result<row_angles> create(const decoder_config& config, std::int32_t context, std::int32_t max_rows);

  /// Takes the positions of the rows of `s`.
  void find(const step& s);

  /// Of row `row` of that step in `layer`: cosines [head_dim / 2], then sines.
  const float* of(std::int32_t layer, std::int64_t row) const {
    return found_[table_of_[static_cast<std::size_t>(layer)] * max_rows_ + static_cast<std::size_t>(row)];
  }

 private:
  row_angles() = default;

  std::vector<rope_table> tables_;
  std::vector<std::size_t> table_of_;  // [layer]
  std::size_t max_rows_ = 0;
  memory_block far_;                 // [table][row][cos | sin][dims / 2], of rows beyond the tables
  std::vector<const float*> found_;  // [table][row]
};

}  // namespace kvern::gpu::cpu
