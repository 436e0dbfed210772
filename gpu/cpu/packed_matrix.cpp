#include "gpu/cpu/packed_matrix.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "gpu/cpu/activations_data.hpp"

namespace kvern::gpu::cpu {
namespace {

// Rows of activations that go over a strip while it is in the first-level cache; they stay in the second.
constexpr int rows_in_item = 64;

// Bytes of the file's blocks: f16 scale, (q4_1) f16 minimum, quants.
struct file_block {
  int quants, bytes;
};
file_block file_block_of(packing p) {
  switch (p) {
    case packing::q4_0:
      return {2, 18};
    case packing::q4_1:
      return {4, 20};
    case packing::q8_0:
      return {2, 34};
  }
  return {};
}

}  // namespace

packed_matrix::packed_matrix(packing p, int rows, int cols, isa i, memory_block memory)
    : packing_(p),
      rows_(rows),
      cols_(cols),
      blocks_(cols / block_cols),
      layout_(layout_of(p, blocks_)),
      kernels_(kernels_for(i)),
      memory_(std::move(memory)) {}

result<std::unique_ptr<matrix>> packed_matrix::pack(packing p, std::span<const std::byte> blocks, int rows, int cols,
                                                    isa i, thread_team& team) {
  const std::int64_t strips = (std::int64_t{rows} + strip_rows - 1) / strip_rows;
  const strip_layout layout = layout_of(p, cols / block_cols);
  auto memory = memory_block::create(static_cast<std::uint64_t>(strips * layout.bytes), "packed weights");
  if (!memory) return std::unexpected(std::move(memory.error()));
  std::unique_ptr<packed_matrix> made(new packed_matrix(p, rows, cols, i, std::move(*memory)));
  constexpr std::int64_t strips_in_item = 16;
  team.run((strips + strips_in_item - 1) / strips_in_item, [&](std::int64_t item) {
    const std::int64_t end = std::min(strips, (item + 1) * strips_in_item);
    for (std::int64_t s = item * strips_in_item; s < end; ++s) made->pack_strip(s, blocks.data());
  });
  return made;
}

void packed_matrix::pack_strip(std::int64_t s, const std::byte* blocks) {
  const file_block file = file_block_of(packing_);
  std::uint8_t* const to = memory_.as<std::uint8_t>() + s * layout_.bytes;
  for (int o = 0; o < strip_rows; ++o) {
    const std::int64_t row = s * strip_rows + o;
    for (std::int64_t b = 0; b < blocks_; ++b) {
      std::uint8_t* const quants = to + b * layout_.quant_step;
      std::uint8_t* const scales = to + layout_.scales + b * layout_.scale_step;
      if (row >= rows_) {
        // Zero weights; of q8_0 that is the offset, so that the integers cancel as well.
        if (packing_ == packing::q8_0) {
          for (int t = 0; t < 8; ++t) std::memset(quants + 64 * t + 4 * o, 128, 4);
        }
        continue;
      }
      const std::byte* const from = blocks + (row * blocks_ + b) * file.bytes;
      std::memcpy(scales + 2 * o, from, 2);
      if (packing_ == packing::q4_1) std::memcpy(scales + 2 * (strip_rows + o), from + 2, 2);
      std::uint8_t q[32];
      std::memcpy(q, from + file.quants, static_cast<std::size_t>(file.bytes - file.quants));
      if (packing_ == packing::q8_0) {
        for (int k = 0; k < 32; ++k) quants[64 * (k / 4) + 4 * o + k % 4] = static_cast<std::uint8_t>(q[k] ^ 0x80);
      } else {
        for (int k = 0; k < 16; ++k) quants[64 * (k / 4) + 4 * o + k % 4] = q[k];
      }
    }
  }
}

void packed_matrix::multiply(const activations& x, float* out, std::int64_t out_stride, thread_team& team) const {
  const activations::data& d = x.get();
  const int row_items = (d.rows + rows_in_item - 1) / rows_in_item;
  if (row_items == 0) return;
  // Enough items that a thread which loses its core holds up little, few enough that claiming them costs nothing.
  const std::int64_t strips = this->strips();
  const std::int64_t wanted = std::max<std::int64_t>(1, std::int64_t{team.size()} * 8 / row_items);
  const std::int64_t in_item = std::max<std::int64_t>(2, (strips / wanted + 1) / 2 * 2);  // pairs
  const std::int64_t strip_items = (strips + in_item - 1) / in_item;
  team.run(row_items * strip_items, [&](std::int64_t item) {
    const int first = static_cast<int>(item / strip_items) * rows_in_item;
    const int last = std::min(d.rows, first + rows_in_item);
    const std::int64_t begin = item % strip_items * in_item;
    const std::int64_t end = std::min(strips, begin + in_item);
    tile_args a{};
    a.layout = layout_;
    a.blocks = blocks_;
    a.out_stride = out_stride;
    a.fine = d.fine();
    for (std::int64_t s = begin; s < end; s += a.strips) {
      a.strip = strip(s);
      a.strips = s + 1 < end ? 2 : 1;
      a.outputs = static_cast<int>(std::min<std::int64_t>(strip_rows, rows_ - (s + a.strips - 1) * strip_rows));
      for (int r = first; r < last;) {
        const int group = group_rows(r, last);
        a.x = d.group(r);
        a.fetch = r == first;
        a.out = out + r * out_stride + s * strip_rows;
        kernels_.tile(packing_, group, a);
        r += group;
      }
    }
  });
}

void packed_matrix::row(int o, float* out) const {
  const std::uint8_t* const from = strip(o / strip_rows);
  const int lane = o % strip_rows;
  for (std::int64_t b = 0; b < blocks_; ++b) {
    const std::uint8_t* const quants = from + b * layout_.quant_step;
    const std::uint8_t* const scales = from + layout_.scales + b * layout_.scale_step;
    std::uint16_t halves[2] = {};
    std::memcpy(&halves[0], scales + 2 * lane, 2);
    if (packing_ == packing::q4_1) std::memcpy(&halves[1], scales + 2 * (strip_rows + lane), 2);
    float factors[2];
    kernels_.widen_half(halves, factors, 2);
    for (int k = 0; k < block_cols; ++k) {
      float* const to = out + b * block_cols + k;
      const int piece = k / 4, byte = 4 * lane + k % 4;
      if (packing_ == packing::q8_0) {
        *to = static_cast<float>(static_cast<std::int8_t>(quants[64 * piece + byte] ^ 0x80)) * factors[0];
        continue;
      }
      const int both = quants[64 * (piece % 4) + byte];
      const int q = piece < 4 ? both & 15 : both >> 4;
      *to = packing_ == packing::q4_0 ? static_cast<float>(q - 8) * factors[0]
                                      : static_cast<float>(q) * factors[0] + factors[1];
    }
  }
}

}  // namespace kvern::gpu::cpu
