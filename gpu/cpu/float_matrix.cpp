#include "gpu/cpu/float_matrix.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "gpu/cpu/activations_data.hpp"
#include "gpu/quants/dequantize.hpp"

namespace kvern::gpu::cpu {
namespace {

// Columns dequantised at a time: every type's block size (1, 32, 64 or 256) divides it. So many columns of the rows at
// once and of four outputs stay in the first-level cache, with the sums of an item's outputs.
constexpr std::int64_t chunk_cols = 256;
constexpr int outputs_at_once = 4;
constexpr int rows_at_once = 16;
constexpr int widened_rows = 8;
constexpr int outputs_in_item = 16;

}  // namespace

float_matrix::float_matrix(ggml_type type, int rows, int cols, isa i, memory_block memory)
    : type_(type),
      rows_(rows),
      cols_(cols),
      block_size_(traits(type).block_size),
      block_bytes_(traits(type).type_size),
      row_bytes_(cols / block_size_ * block_bytes_),
      kernels_(kernels_for(i)),
      memory_(std::move(memory)) {}

result<std::unique_ptr<matrix>> float_matrix::pack(ggml_type type, std::span<const std::byte> blocks, int rows,
                                                   int cols, isa i, memory_arena& arena) {
  auto memory = arena.take(blocks.size(), "weights");
  if (!memory) return std::unexpected(std::move(memory.error()));
  std::memcpy(memory->data(), blocks.data(), blocks.size());
  return std::unique_ptr<matrix>(new float_matrix(type, rows, cols, i, std::move(*memory)));
}

void float_matrix::widen(std::int64_t o, std::int64_t first, std::int64_t count, float* out) const {
  const std::byte* const from = memory_.data() + o * row_bytes_ + first / block_size_ * block_bytes_;
  switch (type_) {
    case ggml_type::f32:
      std::memcpy(out, from, static_cast<std::size_t>(count) * sizeof(float));
      return;
    case ggml_type::f16:
      kernels_.widen_half(reinterpret_cast<const std::uint16_t*>(from), out, count);
      return;
    case ggml_type::bf16:
      kernels_.widen_bf16(reinterpret_cast<const std::uint16_t*>(from), out, count);
      return;
    default:
      dequantize(type_, {from, static_cast<std::size_t>(count / block_size_ * block_bytes_)},
                 {out, static_cast<std::size_t>(count)});
  }
}

void float_matrix::row(int o, float* out) const { widen(o, 0, cols_, out); }

void float_matrix::multiply_outputs(const float* x, std::int64_t x_stride, int rows, int first_output, float* out,
                                    std::int64_t out_stride) const {
  const int outputs = std::min(outputs_in_item, rows_ - first_output);
  const int quads = (outputs + outputs_at_once - 1) / outputs_at_once;
  const int quad_sums = rows * outputs_at_once;
  alignas(64) float copy[outputs_at_once * chunk_cols];
  alignas(64) float lanes[rows_at_once * outputs_in_item * 16];
  std::fill_n(lanes, quads * quad_sums * 16, 0.0F);
  for (std::int64_t k = 0; k < cols_; k += chunk_cols) {
    const std::int64_t count = std::min(chunk_cols, cols_ - k);
    for (int q = 0; q < quads; ++q) {
      const int first = first_output + q * outputs_at_once;
      const int there = std::min(outputs_at_once, rows_ - first);
      dot_args a{.x = x + k,
                 .x_stride = x_stride,
                 .rows = rows,
                 .element = line_element::f32,
                 .w = copy,
                 .w_stride = chunk_cols,
                 .cols = count,
                 .acc = lanes + q * quad_sums * 16};
      // Few rows read halves as they are; for many they are widened once.
      const bool as_stored =
          type_ == ggml_type::f32 || (rows < widened_rows && (type_ == ggml_type::f16 || type_ == ggml_type::bf16));
      if (as_stored && there == outputs_at_once) {
        a.element = type_ == ggml_type::f32   ? line_element::f32
                    : type_ == ggml_type::f16 ? line_element::f16
                                              : line_element::bf16;
        a.w = memory_.data() + first * row_bytes_ + k * block_bytes_;
        a.w_stride = cols_;
      } else {
        for (int o = 0; o < there; ++o) widen(first + o, k, count, copy + o * chunk_cols);
        if (there < outputs_at_once) std::fill(copy + there * chunk_cols, std::end(copy), 0.0F);
      }
      kernels_.dot(a);
    }
  }
  float sums[rows_at_once * outputs_in_item];
  kernels_.sum_lanes(lanes, quads * quad_sums, sums);
  for (int r = 0; r < rows; ++r) {
    for (int o = 0; o < outputs; ++o)
      out[r * out_stride + o] = sums[o / outputs_at_once * quad_sums + r * outputs_at_once + o % outputs_at_once];
  }
}

void float_matrix::multiply(const activations& x, float* out, std::int64_t out_stride, thread_team& team) const {
  const activations::data& d = x.get();
  const int items = (rows_ + outputs_in_item - 1) / outputs_in_item;
  team.run(items, [&](std::int64_t item) {
    const int first = static_cast<int>(item) * outputs_in_item;
    for (int r = 0; r < d.rows; r += rows_at_once) {
      const int rows = std::min(rows_at_once, d.rows - r);
      multiply_outputs(d.x + r * d.stride, d.stride, rows, first, out + r * out_stride + first, out_stride);
    }
  });
}

}  // namespace kvern::gpu::cpu
