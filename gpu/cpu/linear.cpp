#include "gpu/cpu/linear.hpp"

#include <cstddef>
#include <utility>

namespace kvern::gpu::cpu {

result<linear> linear::pack(std::span<const gguf_tensor* const> tensors, isa i, thread_team& team,
                            memory_arena& arena) {
  linear made;
  for (std::size_t first = 0; first < tensors.size();) {
    std::size_t last = first + 1;
    while (last < tensors.size() && tensors[last]->type == tensors[first]->type) ++last;
    gguf_tensor joined = *tensors[first];
    std::vector<std::byte> bytes;
    if (last - first > 1) {  // rows are contiguous, so tensors of one type are joined by their bytes
      for (std::size_t t = first; t < last; ++t)
        bytes.insert(bytes.end(), tensors[t]->data.begin(), tensors[t]->data.end());
      joined.dims[1] = 0;
      for (std::size_t t = first; t < last; ++t) joined.dims[1] += tensors[t]->rows();
      joined.data = bytes;
    }
    auto weights = matrix::pack(joined, 0, joined.rows(), i, team, arena);
    if (!weights) return std::unexpected(std::move(weights.error()));
    const int rows = (*weights)->rows();
    made.parts_.push_back({std::move(*weights), made.outputs_});
    made.outputs_ += rows;
    first = last;
  }
  return made;
}

std::uint64_t linear::bytes() const {
  std::uint64_t sum = bias.size() * sizeof(float);
  for (const part& p : parts_) sum += p.weights->bytes();
  return sum;
}

void linear::multiply(const activations& x, float* out, std::int64_t out_stride, thread_team& team) const {
  for (const part& p : parts_) p.weights->multiply(x, out + p.first, out_stride, team);
}

void linear::row(int o, float* out) const {
  std::size_t at = parts_.size() - 1;
  while (parts_[at].first > o) --at;
  parts_[at].weights->row(o - parts_[at].first, out);
}

}  // namespace kvern::gpu::cpu
