#include "gpu/cpu/packed_matrix.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "gpu/cpu/activations_data.hpp"
#include "gpu/cpu/packed_strip.hpp"

namespace kvern::gpu::cpu {
namespace {

// Rows of activations that go over a strip while it is in the first-level cache; they stay in the second.
constexpr int rows_in_item = 64;

}  // namespace

strip_layout layout_of(packing p, std::int64_t blocks) {
  const packing_form& form = packing_forms[static_cast<int>(p)];
  const std::int64_t quants = form.bits * 64;
  const std::int64_t scales = form.super_blocks ? (form.halves || form.minima ? 32 : 16) : form.minima ? 64 : 32;
  strip_layout l{};
  const bool together = scales == 64;  // quants stay aligned with the scales between them
  l.quant_step = together ? quants + scales : quants;
  l.scales = together ? quants : blocks * quants;
  l.scale_step = together ? l.quant_step : scales;
  l.factors = blocks * (quants + scales);
  l.factor_step = form.super_blocks ? (form.minima ? 64 : 32) : 0;
  const std::int64_t end = l.factors + (blocks + super_block - 1) / super_block * l.factor_step;
  l.bytes = (end + 63) / 64 * 64;
  return l;
}

packed_matrix::packed_matrix(packing p, int rows, int cols, isa i, memory_block memory)
    : packing_(p),
      rows_(rows),
      cols_(cols),
      blocks_(cols / block_cols),
      layout_(layout_of(p, blocks_)),
      kernels_(kernels_for(i)),
      memory_(std::move(memory)) {}

result<std::unique_ptr<matrix>> packed_matrix::pack(packing p, std::span<const std::byte> blocks, int rows, int cols,
                                                    isa i, thread_team& team, memory_arena& arena) {
  const std::int64_t strips = (std::int64_t{rows} + strip_rows - 1) / strip_rows;
  const strip_layout layout = layout_of(p, cols / block_cols);
  auto memory = arena.take(static_cast<std::uint64_t>(strips * layout.bytes), "packed weights");
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
  const ggml_type_traits& type = traits(type_of(packing_));
  const std::int64_t row_bytes = std::int64_t{cols_} / type.block_size * type.type_size;
  std::uint8_t* const to = memory_.as<std::uint8_t>() + s * layout_.bytes;
  const int rows = static_cast<int>(std::min<std::int64_t>(strip_rows, rows_ - s * strip_rows));
  for (int o = 0; o < rows; ++o)
    for (std::int64_t b = 0; b < blocks_; ++b)
      place(read_file_block(packing_, blocks + (s * strip_rows + o) * row_bytes, b), to, o, b);
}

void packed_matrix::place(const file_block& from, std::uint8_t* strip, int o, std::int64_t b) const {
  const packing_form& form = packing_forms[static_cast<int>(packing_)];
  // Four quants at a time; nothing crosses a byte, so their order in a word is no matter.
  std::uint32_t pieces[8];
  std::memcpy(pieces, from.quants, sizeof pieces);
  std::uint8_t* const quants = strip + b * layout_.quant_step + 4 * o;
  const auto put = [quants](int line, std::uint32_t four) { std::memcpy(quants + 64 * line, &four, sizeof four); };
  // Of fields of one and of two bits, as many pieces as a byte has room for; `shift` is that of their lowest bit.
  const auto put_bits = [&](int line, int shift) {
    std::uint32_t all = 0;
    for (int t = 0; t < 8; ++t) all |= (pieces[t] >> shift & 0x01010101U) << t;
    put(line, all);
  };
  const auto put_pairs = [&](int line, int shift) {
    for (int half = 0; half < 2; ++half) {
      std::uint32_t all = 0;
      for (int j = 0; j < 4; ++j) all |= (pieces[j + 4 * half] >> shift & 0x03030303U) << (2 * j);
      put(line + half, all);
    }
  };
  if (form.bits == 8) {
    for (int t = 0; t < 8; ++t) put(t, pieces[t]);
  } else if (form.bits < 4) {
    put_pairs(0, 0);
    if (form.bits == 3) put_bits(2, 2);
  } else {
    for (int j = 0; j < 4; ++j) put(j, (pieces[j] & 0x0f0f0f0fU) | (pieces[j + 4] & 0x0f0f0f0fU) << 4);
    if (form.bits == 5) put_bits(4, 4);
    if (form.bits == 6) put_pairs(4, 4);
  }

  std::uint8_t* const scales = strip + layout_.scales + b * layout_.scale_step;
  std::uint8_t* const factors =
      form.super_blocks ? strip + layout_.factors + b / super_block * layout_.factor_step : scales;
  std::memcpy(factors + 2 * o, &from.factors[0], 2);
  if (form.minima) std::memcpy(factors + 2 * (strip_rows + o), &from.factors[1], 2);
  if (!form.super_blocks) return;
  const auto put_byte = [&](int at, int byte) { scales[at * strip_rows + o] = static_cast<std::uint8_t>(byte); };
  if (form.halves && form.minima) {
    for (int half = 0; half < 2; ++half) put_byte(half, from.scales[half] | from.minima[half] << 4);
  } else {
    put_byte(0, from.scales[0]);
    if (form.halves) put_byte(1, from.scales[1]);
    if (form.minima) put_byte(1, from.minima[0]);
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
        a.tiles = group == tile_rows ? (last - r) / tile_rows : 1;
        a.x = d.group(r);
        a.fetch = r == first;
        a.out = out + r * out_stride + s * strip_rows;
        kernels_.tile(packing_, group, a);
        r += group * a.tiles;
      }
    }
  });
}

void packed_matrix::row(int o, float* out) const {
  const int lane = o % strip_rows;
  for (std::int64_t b = 0; b < blocks_; ++b) {
    const packed_block w(packing_, layout_, strip(o / strip_rows), b);
    const float scale[2] = {w.scale(lane, 0), w.scale(lane, 1)};
    const float minimum[2] = {w.minimum(lane, 0), w.minimum(lane, 1)};
    for (int k = 0; k < block_cols; ++k) {
      const float product = scale[k / 16] * static_cast<float>(w.quant(lane, k) - w.form.offset);
      out[b * block_cols + k] = w.form.minima ? product + minimum[k / 16] : product;
    }
  }
}

}  // namespace kvern::gpu::cpu
