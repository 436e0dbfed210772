#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cpu/kernels.hpp"
#include "model/gguf/ggml_type.hpp"

namespace kvern::gpu::cpu {

/// Thirty-two weights of a row as the file has them, taken apart into what packing_form is made of.
struct file_block {
  std::uint8_t quants[block_cols];  ///< as stored: unsigned, with the form's offset; of a codebook its indices
  std::uint16_t factors[2];         ///< f16: scale and minimum, or what those below are times
  std::int8_t scales[2];            ///< of super-blocks: the scale, or those of the halves
  std::int8_t minima[2];            ///< likewise
};

/// The file's type of a packing.
ggml_type type_of(packing p);

/// Block `b` of the row whose blocks begin at `row`; what the form does not have is 0.
file_block read_file_block(packing p, const std::byte* row, std::int64_t b);

}  // namespace kvern::gpu::cpu
