#include "bench/cache_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <numeric>
#include <utility>

#include "bench/random_floats.hpp"
#include "gpu/cache/cache_shape.hpp"

namespace kvern::bench {

using namespace gpu;       // NOLINT(google-build-using-namespace)
using namespace gpu::cpu;  // NOLINT(google-build-using-namespace)

namespace {

template <class T>
T must(result<T> r) {
  if (!r) give_up(r.error());
  return std::move(*r);
}

void must(const result<void>& r) {
  if (!r) give_up(r.error());
}

kv_store::settings settings_of(const attention_shape& shape, const cache_options& options, std::int32_t pages,
                               std::int32_t rows) {
  return {.tables = make_page_tables(shape.windows),
          .kv_heads = shape.kv_heads,
          .head_dim = shape.head_dim,
          .options = options,
          .pages = pages,
          .max_rows = rows,
          .kernels = best_isa()};
}

gpu::step decode_step(std::vector<step_sequence> sequences) {
  gpu::step s;
  s.sequences = std::move(sequences);
  for (std::size_t n = 0; n < s.sequences.size(); ++n)
    s.rows.push_back({.position = s.sequences[n].committed, .sequence = static_cast<std::int32_t>(n), .logits = true});
  return s;
}

}  // namespace

void give_up(const error& why) {
  fmt::print(stderr, "{}: {}\n", why.code, why.message);
  std::exit(1);
}

double seconds_now(bool of_thread) {
  timespec now{};
  clock_gettime(of_thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

placed_sequences place_sequences(const page_tables& tables, cache_layout layout, std::int32_t count,
                                 std::int32_t context) {
  placed_sequences placed;
  placed.sequences.resize(static_cast<std::size_t>(count));
  const std::int32_t blocks = (context + page_lines - 1) / page_lines;
  for (step_sequence& sequence : placed.sequences) {
    sequence.committed = context - 1;
    for (const std::int32_t window : tables.windows) {
      const std::int32_t first = visible({}, window, context - 1).first / page_lines, run = blocks - first;
      const std::int32_t shift = layout == cache_layout::ring ? run / 2 : 0;
      sequence.pages.insert(sequence.pages.end(), static_cast<std::size_t>(first), no_page);
      for (std::int32_t b = 0; b < run; ++b) sequence.pages.push_back(placed.pages + (b + shift) % run);
      placed.pages += run;
    }
  }
  if (layout != cache_layout::paged) return placed;
  std::vector<page_id> scattered(static_cast<std::size_t>(placed.pages));
  std::iota(scattered.begin(), scattered.end(), 0);
  std::shuffle(scattered.begin(), scattered.end(), std::mt19937(3));
  for (step_sequence& sequence : placed.sequences)
    for (page_id& page : sequence.pages)
      if (page != no_page) page = scattered[static_cast<std::size_t>(page)];
  return placed;
}

void fill_pages(kv_store& store, const kv_store::settings& how, thread_team& team) {
  kv_store::settings one = how;
  one.options.update = cache_update::lazy;
  one.pages = how.tables.count();
  one.max_rows = page_lines;
  kv_store scratch = must(kv_store::create(one, team));
  std::vector<std::int64_t> lines;
  for (std::int32_t row = 0; row < page_lines; ++row)
    for (std::int32_t table = 0; table < one.pages; ++table) lines.push_back(std::int64_t{table} * page_lines + row);
  scratch.begin(lines);
  const auto width = static_cast<std::size_t>(how.kv_heads) * static_cast<std::size_t>(how.head_dim);
  const std::vector<float> values = random_floats(width * static_cast<std::size_t>(page_lines));
  std::vector<std::int32_t> rows(static_cast<std::size_t>(page_lines));
  std::iota(rows.begin(), rows.end(), 0);
  for (std::size_t layer = 0; layer < how.tables.layers.size(); ++layer)
    for (const std::int32_t row : rows) {
      const float* const at = values.data() + static_cast<std::size_t>(row) * width;
      scratch.stage(static_cast<std::int32_t>(layer), row, at, at);
    }
  must(scratch.finalize(rows));
  std::vector<std::byte> page(static_cast<std::size_t>(scratch.shape().page_bytes()));
  must(scratch.read(0, page_lines, page));
  for (page_id p = 0; p < how.pages; ++p) must(store.write(p, page_lines, page));
}

std::vector<std::int64_t> lines_of(const gpu::step& s, std::size_t tables) {
  std::vector<std::int64_t> lines;
  for (const step_row& row : s.rows) {
    const std::vector<page_id>& pages = s.sequences[static_cast<std::size_t>(row.sequence)].pages;
    const std::size_t blocks = pages.size() / tables;
    for (std::size_t table = 0; table < tables; ++table)
      lines.push_back(std::int64_t{pages[table * blocks + static_cast<std::size_t>(row.position / page_lines)]} *
                          page_lines +
                      row.position % page_lines);
  }
  return lines;
}

cache_case::cache_case(attention_shape shape, cache_options options, std::int32_t count, std::int32_t context,
                       thread_team& team)
    : shape_(std::move(shape)),
      context_(context),
      team_(team),
      store_([&] {
        const page_tables tables = make_page_tables(shape_.windows);
        placed_sequences placed = place_sequences(tables, options.layout, count, context);
        const kv_store::settings how = settings_of(shape_, options, placed.pages, count);
        step_ = decode_step(std::move(placed.sequences));
        kv_store store = must(kv_store::create(how, team));
        fill_pages(store, how, team);
        return store;
      }()),
      lines_(lines_of(step_, store_.tables().windows.size())),
      accepted_(static_cast<std::size_t>(count)) {
  std::iota(accepted_.begin(), accepted_.end(), 0);
  const auto rows = static_cast<std::size_t>(count), dim = static_cast<std::size_t>(shape_.head_dim);
  q_ = random_floats(rows * static_cast<std::size_t>(shape_.heads) * dim);
  k_ = random_floats(static_cast<std::size_t>(shape_.kv_heads) * dim);
  out_.resize(q_.size());
}

cache_times cache_case::step() {
  const auto layers = static_cast<std::int32_t>(shape_.windows.size());
  store_.begin(lines_);
  for (std::int32_t layer = 0; layer < layers; ++layer)
    for (const std::int32_t row : accepted_) store_.stage(layer, row, k_.data(), k_.data());
  const bool of_thread = team_.size() == 1;
  const double start = seconds_now(of_thread);
  for (std::int32_t layer = 0; layer < layers; ++layer)
    store_.attend(layer, step_,
                  {.heads = shape_.heads, .scale = 0.125F, .window = shape_.windows[static_cast<std::size_t>(layer)]},
                  q_.data(), out_.data());
  const double attended = seconds_now(of_thread);
  must(store_.finalize(accepted_));
  return {attended - start, seconds_now(of_thread) - attended};
}

std::uint64_t cache_case::bytes_read() const {
  cache_shape layer = store_.shape();
  layer.layers = 1;
  std::uint64_t keys = 0;
  for (const std::int32_t window : shape_.windows)
    keys += static_cast<std::uint64_t>(context_ - visible({}, window, context_ - 1).first);
  return keys * layer.line_bytes() * accepted_.size();
}

std::uint64_t cache_case::bytes_needed(const attention_shape& shape, const cache_options& options, std::int32_t count,
                                       std::int32_t context) {
  const page_tables tables = make_page_tables(shape.windows);
  const cache_shape page{.layers = tables.page_layers,
                         .kv_heads = shape.kv_heads,
                         .head_dim = shape.head_dim,
                         .type = options.type,
                         .scale = options.scale};
  const placed_sequences one = place_sequences(tables, cache_layout::left, 1, context);
  return page_memory_bytes(page, options.shards) * static_cast<std::uint64_t>(one.pages) *
         static_cast<std::uint64_t>(count);
}

}  // namespace kvern::bench
