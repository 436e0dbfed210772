#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "gpu/cpu/matrix.hpp"
#include "gpu/cpu/thread_team.hpp"
#include "model/gguf/gguf.hpp"

namespace kvern::gpu::cpu {

/// Weight matrices that read the same input, their outputs side by side. Neighbours of one type are packed as one
/// matrix, so that a small step wakes the team once. Immutable, movable.
class linear {
 public:
  /// All `tensors` have the same number of columns. Errors: those of matrix::pack.
  static result<linear> pack(std::span<const gguf_tensor* const> tensors, isa i, thread_team& team,
                             memory_arena& arena);

  int outputs() const { return outputs_; }
  std::uint64_t bytes() const;

  /// out[r * out_stride + o], for all rows of `x` and all outputs, without the bias.
  void multiply(const activations& x, float* out, std::int64_t out_stride, thread_team& team) const;

  /// Values added to the outputs: [outputs], or empty. Added by whoever reads the product next, in its own pass.
  std::vector<float> bias;
  void add_bias(float* row) const {
    for (std::size_t o = 0; o < bias.size(); ++o) row[o] += bias[o];
  }

  /// Input row of output `o` (embedding look-up): [cols] values.
  void row(int o, float* out) const;

 private:
  struct part {
    std::unique_ptr<matrix> weights;
    int first = 0;  ///< its first output
  };
  std::vector<part> parts_;
  int outputs_ = 0;
};

}  // namespace kvern::gpu::cpu
