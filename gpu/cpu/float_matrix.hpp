#pragma once

#include <cstddef>
#include <span>

#include "gpu/cache/memory_block.hpp"
#include "gpu/cpu/kernels.hpp"
#include "gpu/cpu/matrix.hpp"

namespace kvern::gpu::cpu {

/// Weights of any type, kept in the file's blocks and dequantised while they are multiplied, in float32.
class float_matrix final : public matrix {
 public:
  /// `cols` is a multiple of the type's block. Errors: `out_of_memory`.
  static result<std::unique_ptr<matrix>> pack(ggml_type type, std::span<const std::byte> blocks, int rows, int cols,
                                              isa i, memory_arena& arena);

  int rows() const override { return rows_; }
  int cols() const override { return cols_; }
  std::uint64_t bytes() const override { return memory_.size(); }
  void multiply(const activations& x, float* out, std::int64_t out_stride, thread_team& team) const override;
  void row(int o, float* out) const override;

 private:
  float_matrix(ggml_type type, int rows, int cols, isa i, memory_block memory);

  /// Columns [first, first + count) of row `o`, both multiples of the type's block.
  void widen(std::int64_t o, std::int64_t first, std::int64_t count, float* out) const;
  /// Up to outputs_in_item outputs and rows_at_once rows.
  void multiply_outputs(const float* x, std::int64_t x_stride, int rows, int first_output, float* out,
                        std::int64_t out_stride) const;

  ggml_type type_;
  int rows_, cols_;
  std::int64_t block_size_, block_bytes_, row_bytes_;
  const kernels& kernels_;
  memory_block memory_;
};

}  // namespace kvern::gpu::cpu
