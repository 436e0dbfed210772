#include "gpu/cpu/matrix.hpp"

#include <fmt/format.h>

#include <iterator>
#include <limits>

#include "gpu/cpu/float_matrix.hpp"
#include "gpu/cpu/packed_matrix.hpp"

namespace kvern::gpu::cpu {

result<std::unique_ptr<matrix>> matrix::pack(const gguf_tensor& tensor, std::uint64_t first_row, std::uint64_t rows,
                                             isa i, thread_team& team, memory_arena& arena) {
  constexpr std::uint64_t most = std::numeric_limits<int>::max() - strip_rows;
  const ggml_type_traits& type = traits(tensor.type);
  const std::uint64_t cols = tensor.row_length();
  if (cols == 0 || cols > most || cols % type.block_size != 0) {
    return fail("model_invalid", fmt::format("Tensor {} has rows of {} elements, but {} is stored in blocks of {}; the "
                                             "file is damaged, download it again.",
                                             tensor.name, cols, type.name, type.block_size));
  }
  const std::uint64_t row_bytes = cols / type.block_size * type.type_size;
  const std::uint64_t rows_there = tensor.data.size() / row_bytes;
  if (rows == 0 || rows > most || first_row > rows_there || rows > rows_there - first_row) {
    return fail("model_invalid", fmt::format("Tensor {} holds {} rows where rows {} to {} are needed; the file is "
                                             "damaged or of another model.",
                                             tensor.name, rows_there, first_row, first_row + rows));
  }
  const auto blocks = tensor.data.subspan(first_row * row_bytes, rows * row_bytes);
  const int r = static_cast<int>(rows), c = static_cast<int>(cols);
  for (int n = 0; n < static_cast<int>(std::size(packing_forms)); ++n) {
    const auto p = static_cast<packing>(n);
    if (type_of(p) == tensor.type) return packed_matrix::pack(p, blocks, r, c, i, team, arena);
  }
  return float_matrix::pack(tensor.type, blocks, r, c, i, arena);
}

}  // namespace kvern::gpu::cpu
