#include "gpu/cpu/kv_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "gpu/cache/finalize.hpp"
#include "gpu/cpu/line_format.hpp"

namespace kvern::gpu::cpu {
namespace {

constexpr std::size_t rows_in_task = 8;

// Below so many bytes copying takes less time than waking the team.
constexpr std::uint64_t inline_bytes = 32768;

line_format format_of(const cache_shape& shape) {
  return {.type = shape.type,
          .span = shape.scale,
          .kv_heads = shape.kv_heads,
          .head_dim = shape.head_dim,
          .scales_offset = static_cast<std::int64_t>(shape.scales_offset())};
}

line_view view_of(const line_run& run) { return {run.base, run.stride}; }

}  // namespace

kv_store::kv_store(settings how, thread_team& team, page_memory pages, staging staged)
    : how_(std::move(how)), team_(team), pages_(std::move(pages)), staged_(std::move(staged)) {
  const auto rows = static_cast<std::size_t>(how_.max_rows);
  lines_.reserve(rows * how_.tables.windows.size());
  all_.resize(rows);
  std::iota(all_.begin(), all_.end(), 0);
  shards_.resize(static_cast<std::size_t>(pages_.shards()));
}

result<kv_store> kv_store::create(settings how, thread_team& team) {
  const cache_options& options = how.options;
  if (auto ok = validate(options, how.kv_heads); !ok) return std::unexpected(std::move(ok.error()));
  cache_shape shape{.layers = how.tables.page_layers,
                    .kv_heads = how.kv_heads,
                    .head_dim = how.head_dim,
                    .type = options.type,
                    .scale = options.scale};
  auto pages = page_memory::create(
      shape, how.pages,
      {.stacked = options.stacked, .shards = options.shards, .nodes = how.nodes, .noise_seed = how.noise_seed});
  if (!pages) return std::unexpected(std::move(pages.error()));
  shape.layers = static_cast<std::int32_t>(how.tables.layers.size());
  auto staged = staging::create(shape, how.max_rows,
                                {.stacked = options.stage_stacked, .shards = options.shards, .nodes = how.nodes});
  if (!staged) return std::unexpected(std::move(staged.error()));
  return kv_store(std::move(how), team, std::move(*pages), std::move(*staged));
}

void kv_store::begin(std::span<const std::int64_t> lines) {
  lines_.assign(lines.begin(), lines.end());
  rows_ = static_cast<std::int64_t>(lines.size() / how_.tables.windows.size());
}

void kv_store::stage(std::int32_t layer, std::int64_t row, const float* k, const float* v) {
  for (std::int32_t s = 0; s < staged_.shards(); ++s) {
    const std::int64_t first = std::int64_t{staged_.heads(s).first} * how_.head_dim;
    const line_format format = format_of(staged_.shard(s));
    store_line(format, k + first, staged_.lines(s, layer, line_part::k).line(row), how_.kernels);
    store_line(format, v + first, staged_.lines(s, layer, line_part::v).line(row), how_.kernels);
  }
}

void kv_store::attend(std::int32_t layer, const step& s, const attention_settings& how, const float* q, float* out) {
  if (how_.options.update == cache_update::eager)
    flush(std::span(all_).first(static_cast<std::size_t>(rows_)), layer, layer + 1);
  attend_shards(layer, s, how, q, out);
}

void kv_store::attend_shards(std::int32_t layer, const step& s, const attention_settings& how, const float* q,
                             float* out) {
  const layer_place place = how_.tables.layers[static_cast<std::size_t>(layer)];
  for (std::int32_t n = 0; n < pages_.shards(); ++n) {
    const head_range heads = pages_.heads(n);
    shards_[static_cast<std::size_t>(n)] = {
        .first_kv_head = heads.first,
        .kv_heads = heads.count,
        .page_k = view_of(pages_.lines(n, place.layer, line_part::k)),
        .page_v = view_of(pages_.lines(n, place.layer, line_part::v)),
        .staged_k = view_of(staged_.lines(n, layer, line_part::k)),
        .staged_v = view_of(staged_.lines(n, layer, line_part::v)),
        .scales_offset = static_cast<std::int64_t>(pages_.shard(n).scales_offset())};
  }
  cpu::attend({.heads = how.heads,
               .kv_heads = how_.kv_heads,
               .head_dim = how_.head_dim,
               .scale = how.scale,
               .cap = how.cap,
               .window = how.window,
               .type = how_.options.type,
               .span = how_.options.scale,
               .q = q,
               .out = out,
               .shards = shards_,
               .what = &s,
               .table = place.table,
               .tables = how_.tables.count(),
               .eager = how_.options.update == cache_update::eager},
              how_.kernels, team_);
}

void kv_store::flush(std::span<const std::int32_t> rows, std::int32_t first_layer, std::int32_t last_layer) {
  if (rows.empty()) return;
  ++flushes_;
  const std::size_t chunks = (rows.size() + rows_in_task - 1) / rows_in_task;
  const auto commit = [&](std::int64_t task) {
    const std::size_t first = static_cast<std::size_t>(task) % chunks * rows_in_task;
    commit_lines(staged_, how_.tables,
                 {.rows = rows.subspan(first, std::min(rows_in_task, rows.size() - first)),
                  .lines = lines_,
                  .first_layer = first_layer,
                  .last_layer = last_layer,
                  .shard = static_cast<std::int32_t>(static_cast<std::size_t>(task) / chunks)},
                 pages_);
  };
  const auto tasks = static_cast<std::int64_t>(chunks) * pages_.shards();
  const std::uint64_t bytes =
      rows.size() * staged_.shape().part_bytes() * line_parts * static_cast<std::uint64_t>(last_layer - first_layer);
  if (bytes > inline_bytes) {
    team_.run(tasks, commit);
    return;
  }
  for (std::int64_t task = 0; task < tasks; ++task) commit(task);
}

result<void> kv_store::finalize(std::span<const std::int32_t> accepted) {
  std::int64_t before = -1;
  for (const std::int32_t row : accepted) {
    if (row <= before || row >= rows_)
      return fail("invalid_step",
                  fmt::format("Row {} cannot be accepted: rows must ascend and {} are staged.", row, rows_));
    before = row;
  }
  const std::int32_t layers = staged_.shape().layers;
  if (how_.options.update == cache_update::lazy) {
    const std::int32_t together = how_.options.stage_stacked ? layers : 1;
    for (std::int32_t first = 0; first < layers; first += together) flush(accepted, first, first + together);
  }
  rows_ = 0;
  return {};
}

}  // namespace kvern::gpu::cpu
