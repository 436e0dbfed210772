#pragma once

#include <cstddef>
#include <span>

#include "gpu/cache/memory_block.hpp"
#include "gpu/cpu/file_block.hpp"
#include "gpu/cpu/kernels.hpp"
#include "gpu/cpu/matrix.hpp"

namespace kvern::gpu::cpu {

/// Weights of a packing in strips of sixteen rows (see strip_layout); the last strip is filled up with zeros.
class packed_matrix final : public matrix {
 public:
  /// `rows` rows of `cols` columns (a multiple of the type's block) in the file's blocks. Errors: `out_of_memory`.
  static result<std::unique_ptr<matrix>> pack(packing p, std::span<const std::byte> blocks, int rows, int cols, isa i,
                                              thread_team& team, memory_arena& arena);

  int rows() const override { return rows_; }
  int cols() const override { return cols_; }
  std::uint64_t bytes() const override { return memory_.size(); }
  void multiply(const activations& x, float* out, std::int64_t out_stride, thread_team& team) const override;
  void row(int o, float* out) const override;

 private:
  packed_matrix(packing p, int rows, int cols, isa i, memory_block memory);

  std::int64_t strips() const { return (rows_ + strip_rows - 1) / strip_rows; }
  const std::uint8_t* strip(std::int64_t s) const { return memory_.as<std::uint8_t>() + s * layout_.bytes; }
  void pack_strip(std::int64_t s, const std::byte* blocks);
  void place(const file_block& from, std::uint8_t* strip, int o, std::int64_t b) const;

  packing packing_;
  int rows_, cols_;
  std::int64_t blocks_;
  strip_layout layout_;
  const kernels& kernels_;
  memory_block memory_;
};

}  // namespace kvern::gpu::cpu
