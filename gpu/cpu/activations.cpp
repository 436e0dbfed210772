#include <algorithm>

#include "gpu/cpu/activations_data.hpp"

namespace kvern::gpu::cpu {
namespace {

// Below so many values the work takes less time than waking the team.
constexpr std::int64_t inline_values = 8192;

}  // namespace

activations::activations(activation_mode mode, isa i) : data_(std::make_unique<data>()) {
  data_->mode = mode;
  data_->table = &kernels_for(i);
}

activations::~activations() = default;

void activations::assign(const float* x, int rows, int cols, std::int64_t stride, thread_team& team) {
  data& d = *data_;
  d.x = x;
  d.rows = rows;
  d.cols = cols;
  d.stride = stride;
  d.quantised = cols % block_cols == 0;
  if (!d.quantised) return;
  d.blocks = cols / block_cols;
  const auto blocks = static_cast<std::size_t>(rows * d.blocks);
  if (d.scales.size() < blocks) {
    d.quants.resize(blocks * static_cast<std::size_t>(d.block_bytes()));
    d.scales.resize(blocks);
    d.scaled_sums.resize(blocks);
    d.sums.resize(blocks);
    d.first_sums.resize(blocks);
  }

  const auto quantise_group = [&d, x, rows, stride](int first) {
    const int size = group_rows(first, rows);
    const std::int64_t at = first * d.blocks;
    for (int r = 0; r < size; ++r) {
      d.table->quantise({.x = x + (first + r) * stride,
                         .blocks = d.blocks,
                         .fine = d.fine(),
                         .rows = size,
                         .row = r,
                         .quants = d.quants.data() + at * d.block_bytes(),
                         .scales = d.scales.data() + at,
                         .scaled_sums = d.scaled_sums.data() + at,
                         .sums = d.sums.data() + at,
                         .first_sums = d.first_sums.data() + at});
    }
  };
  const int whole = rows / tile_rows;
  const auto run = [&](std::int64_t index) {
    int first = static_cast<int>(index) * tile_rows;
    if (index < whole) {
      quantise_group(first);
      return;
    }
    for (; first < rows; first += group_rows(first, rows)) quantise_group(first);
  };
  const std::int64_t groups = whole + (rows % tile_rows != 0 ? 1 : 0);
  if (static_cast<std::int64_t>(rows) * cols <= inline_values) {
    for (std::int64_t i = 0; i < groups; ++i) run(i);
  } else {
    team.run(groups, run);
  }
}

}  // namespace kvern::gpu::cpu
