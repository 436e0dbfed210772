#include "gpu/cpu/kv_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "gpu/cpu/attention.hpp"
#include "gpu/cpu/line_format.hpp"

namespace kvern::gpu::cpu {
namespace {

constexpr std::size_t moves_in_task = 8;

line_view view_of(const line_run& run) { return {run.base, run.stride}; }

}  // namespace

kv_store::kv_store(const settings& how, thread_team& team, page_memory pages, staging staged)
    : how_(how), team_(team), pages_(std::move(pages)), staged_(std::move(staged)) {
  lines_.reserve(static_cast<std::size_t>(how.max_rows));
  moves_.reserve(static_cast<std::size_t>(how.max_rows));
}

result<kv_store> kv_store::create(const settings& how, thread_team& team) {
  auto pages = page_memory::create(how.shape, how.pages, {.noise_seed = how.noise_seed});
  if (!pages) return std::unexpected(std::move(pages.error()));
  auto staged = staging::create(how.shape, how.max_rows);
  if (!staged) return std::unexpected(std::move(staged.error()));
  return kv_store(how, team, std::move(*pages), std::move(*staged));
}

void kv_store::begin(std::span<const std::int64_t> lines) { lines_.assign(lines.begin(), lines.end()); }

void kv_store::stage(std::int32_t layer, std::int64_t row, const float* k, const float* v) {
  const line_format format{.type = shape().type, .kv_heads = shape().kv_heads, .head_dim = shape().head_dim};
  store_line(format, k, staged_.lines(layer, line_part::k).line(row), how_.kernels);
  store_line(format, v, staged_.lines(layer, line_part::v).line(row), how_.kernels);
}

void kv_store::attend(std::int32_t layer, const step& s, const attention_settings& how, const float* q, float* out) {
  const cache_shape& lines = shape();
  const shard_lines all{.kv_heads = lines.kv_heads,
                        .page_k = view_of(pages_.lines(layer, line_part::k)),
                        .page_v = view_of(pages_.lines(layer, line_part::v)),
                        .staged_k = view_of(staged_.lines(layer, line_part::k)),
                        .staged_v = view_of(staged_.lines(layer, line_part::v))};
  cpu::attend({.heads = how.heads,
               .kv_heads = lines.kv_heads,
               .head_dim = lines.head_dim,
               .scale = how.scale,
               .cap = how.cap,
               .window = how.window,
               .type = lines.type,
               .q = q,
               .out = out,
               .shards = {&all, 1},
               .what = &s},
              how_.kernels, team_);
}

result<void> kv_store::finalize(std::span<const std::int32_t> accepted) {
  moves_.clear();
  std::int64_t before = -1;
  for (const std::int32_t row : accepted) {
    if (row <= before || static_cast<std::size_t>(row) >= lines_.size())
      return fail("invalid_step",
                  fmt::format("Row {} cannot be accepted: rows must ascend and {} are staged.", row, lines_.size()));
    moves_.push_back({row, lines_[static_cast<std::size_t>(row)]});
    before = row;
  }
  const std::span<const line_move> moves = moves_;
  const std::size_t tasks = (moves.size() + moves_in_task - 1) / moves_in_task;
  const auto commit = [&](std::int64_t task) {
    const std::size_t first = static_cast<std::size_t>(task) * moves_in_task;
    commit_lines(staged_, moves.subspan(first, std::min(moves_in_task, moves.size() - first)), pages_);
  };
  if (tasks == 1)
    commit(0);
  else if (tasks > 1)
    team_.run(static_cast<std::int64_t>(tasks), commit);
  lines_.clear();
  return {};
}

}  // namespace kvern::gpu::cpu
