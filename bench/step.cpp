// Decode steps of a real model with several caches: one set of weights, a KV store for each variant, steps taken in
// turn so that a busy machine slows all alike. With one thread times are of its processor, else of the wall. Prefixes
// are random lines: their values cost nothing and change nothing.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "bench/cache_case.hpp"
#include "gpu/cpu/decoder_config.hpp"
#include "gpu/cpu/decoder_forward.hpp"
#include "gpu/cpu/decoder_weights.hpp"
#include "gpu/cpu/machine.hpp"
#include "model/gguf/gguf.hpp"

namespace {

using namespace kvern;
using namespace kvern::gpu;
using namespace kvern::gpu::cpu;

struct settings {
  std::string model;
  int threads = 0;
  int batch = 16;
  int context = 512;
  int steps = 100;
  std::vector<std::string> variants{"lazy", "eager", "left"};
};

template <class T>
T must(result<T> r) {
  if (!r) bench::give_up(r.error());
  return std::move(*r);
}

cache_options options_of(const std::string& variant) {
  if (variant == "eager") return {.update = cache_update::eager};
  if (variant == "left") return {.layout = cache_layout::left};
  if (variant == "unstacked") return {.stacked = false};
  if (variant == "stage_unstacked") return {.stage_stacked = false};
  if (variant == "int8") return {.type = line_type::int8};
  return {};
}

/// A KV store and what its steps took.
struct contender {
  std::string name;
  kv_store store;
  step next;
  std::vector<std::int64_t> lines;
  std::vector<double> whole{}, finalize{};
};

contender make_contender(const std::string& name, const decoder_config& config, const settings& o, thread_team& team) {
  const page_tables tables = make_page_tables(config.window);
  const cache_options options = options_of(name);
  auto placed = bench::place_sequences(tables, options.layout, o.batch, o.context);
  const kv_store::settings how{.tables = tables,
                               .kv_heads = config.kv_heads,
                               .head_dim = config.head_dim,
                               .options = options,
                               .pages = placed.pages,
                               .max_rows = o.batch,
                               .kernels = best_isa()};
  contender made{name, must(kv_store::create(how, team)), {{}, std::move(placed.sequences)}, {}};
  bench::fill_pages(made.store, how, team);
  for (std::int32_t n = 0; n < o.batch; ++n)
    made.next.rows.push_back({.token = 100 + n, .position = o.context - 1, .sequence = n, .logits = true});
  made.lines = bench::lines_of(made.next, tables.windows.size());
  return made;
}

void take_step(contender& c, decoder_forward& forward, const std::vector<std::int32_t>& accepted, bool of_thread,
               bool count) {
  const double start = bench::seconds_now(of_thread);
  c.store.begin(c.lines);
  forward.run(c.next, c.store);
  const double ran = bench::seconds_now(of_thread);
  if (const auto done = c.store.finalize(accepted); !done) bench::give_up(done.error());
  const double end = bench::seconds_now(of_thread);
  if (!count) return;
  c.whole.push_back(end - start);
  c.finalize.push_back(end - ran);
}

double quantile(std::vector<double> of, double share) {
  std::sort(of.begin(), of.end());
  return of[static_cast<std::size_t>(share * static_cast<double>(of.size() - 1))];
}

}  // namespace

int main(int argc, char** argv) {
  settings o;
  CLI::App app{"Decode steps of a model with several caches, in turn"};
  app.add_option("model", o.model, "GGUF file")->required();
  app.add_option("-t,--threads", o.threads, "compute threads; 0: physical cores")->check(CLI::Range(0, 1024));
  app.add_option("-b,--batch", o.batch, "sequences that decode together")->check(CLI::Range(1, 512));
  app.add_option("-c,--context", o.context, "positions of each, the new one included")->check(CLI::Range(1, 8192));
  app.add_option("-s,--steps", o.steps, "steps of each cache")->check(CLI::Range(1, 1000000));
  app.add_option("-v,--variants", o.variants, "caches; shares are of the first")
      ->check(CLI::IsMember({"lazy", "eager", "left", "unstacked", "stage_unstacked", "int8"}));
  CLI11_PARSE(app, argc, argv);

  const auto file = must(gguf_file::open(o.model));
  const decoder_config config = must(read_decoder_config(*file));
  thread_team team(o.threads > 0 ? o.threads : usable_cores());
  const decoder_weights weights = must(decoder_weights::load(file, config, best_isa(), team, {}));
  const auto forward = must(decoder_forward::create(
      config, weights, {.max_rows = o.batch, .context = o.context, .kernels = best_isa()}, team));
  std::vector<contender> all;
  for (const std::string& name : o.variants) all.push_back(make_contender(name, config, o, team));
  std::vector<std::int32_t> accepted(static_cast<std::size_t>(o.batch));
  std::iota(accepted.begin(), accepted.end(), 0);

  constexpr int warm_up = 3;
  for (int n = -warm_up; n < o.steps; ++n)
    for (std::size_t i = 0; i < all.size(); ++i)
      take_step(all[(i + static_cast<std::size_t>(n + warm_up)) % all.size()], *forward, accepted, team.size() == 1,
                n >= 0);

  fmt::print("{}, {} threads, batch {}, context {}, {} steps of each in turn\n", file->file_name(), team.size(),
             o.batch, o.context, o.steps);
  fmt::print("{:>16} {:>12} {:>12} {:>12} {:>9} {:>9} {:>8}\n", "", "step ms", "least ms", "finalize us", "of step",
             "to first", "flushes");
  for (const contender& c : all) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < c.whole.size(); ++i) ratios.push_back(c.whole[i] / all.front().whole[i]);
    const double step = quantile(c.whole, 0.5), finalize = quantile(c.finalize, 0.5);
    fmt::print("{:>16} {:12.3f} {:12.3f} {:12.2f} {:8.3f}% {:9.4f} {:8.0f}\n", c.name, step * 1e3,
               quantile(c.whole, 0) * 1e3, finalize * 1e6, finalize / step * 100, quantile(ratios, 0.5),
               static_cast<double>(c.store.flushes()) / (o.steps + warm_up));
  }
  return 0;
}
