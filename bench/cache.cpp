// The cache's options against the default ones: attention and finalize of decode steps, without a model. Each iteration
// runs a step of the variant and one of the default cache in turn, so that a busy machine slows both. Names are
// MODEL/VARIANT/batch/context/threads; `--benchmark_filter='smollm2/.*/16/4096/1$'` chooses.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/cache_case.hpp"
#include "bench/roofline.hpp"
#include "bench/run_benchmarks.hpp"
#include "gpu/cache/memory_block.hpp"

namespace kvern::bench {
namespace {

using namespace gpu;       // NOLINT(google-build-using-namespace)
using namespace gpu::cpu;  // NOLINT(google-build-using-namespace)

// A case that needs more has fewer layers, and its times are scaled to all of them. Two cases are held at a time.
constexpr std::uint64_t most_bytes = std::uint64_t{2} << 30;
constexpr std::size_t roofline_bytes = std::size_t{512} << 20;

struct model {
  std::string name;
  attention_shape shape;
  std::size_t period = 1;  ///< of layers that are left out
};

struct variant {
  std::string name;
  cache_options options;
};

double median(std::vector<double> of) {
  const auto middle = of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2);
  std::nth_element(of.begin(), middle, of.end());
  return *middle;
}

/// What benchmarks share: teams, the default case of the last shape, and memory to read for the bound.
class shared_parts {
 public:
  shared_parts() : memory_(std::move(*memory_block::create(roofline_bytes, "the roofline"))) {
    std::fill_n(memory_.data(), roofline_bytes, std::byte{1});
  }

  thread_team& team(int threads) {
    auto& team = teams_[threads];
    if (!team) team = std::make_unique<thread_team>(threads);
    return *team;
  }

  cache_case& base(const std::string& name, const attention_shape& shape, int count, int context, int threads) {
    if (name != base_name_) {
      base_.reset();
      base_ = std::make_unique<cache_case>(shape, cache_options{}, count, context, team(threads));
      base_name_ = name;
    }
    return *base_;
  }

  /// Bytes a second at which the team reads `bytes` bytes (half a GiB at most) again and again; median of some rounds.
  double read_speed(std::uint64_t bytes, thread_team& team) const {
    bytes = std::min<std::uint64_t>(bytes, roofline_bytes);
    constexpr std::uint64_t pieces = 64, rounds = 9;
    const std::size_t piece = std::max<std::size_t>(bytes / pieces, 1);
    std::vector<double> speeds;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const bool of_thread = team.size() == 1;
      const double start = seconds_now(of_thread);
      team.run(pieces, [&](std::int64_t i) {
        benchmark::DoNotOptimize(read_all({memory_.data() + static_cast<std::size_t>(i) * piece, piece}));
      });
      speeds.push_back(static_cast<double>(bytes) / (seconds_now(of_thread) - start));
    }
    return median(speeds);
  }

 private:
  std::map<int, std::unique_ptr<thread_team>> teams_;
  std::unique_ptr<cache_case> base_;
  std::string base_name_;
  memory_block memory_;
};

/// Layers left out so that the case fits, and by what its times are to be multiplied.
double fit(model& m, const cache_options& options, int count, int context) {
  const std::size_t all = m.shape.windows.size();
  while (m.shape.windows.size() > m.period && cache_case::bytes_needed(m.shape, options, count, context) > most_bytes)
    m.shape.windows.resize(m.shape.windows.size() - m.period);
  return static_cast<double>(all) / static_cast<double>(m.shape.windows.size());
}

void run(benchmark::State& state, shared_parts& shared, const model& m, const variant& v) {
  const auto count = static_cast<int>(state.range(0)), context = static_cast<int>(state.range(1)),
             threads = static_cast<int>(state.range(2));
  model of_base = m, of_variant = m;
  const double base_scale = fit(of_base, {}, count, context), scale = fit(of_variant, v.options, count, context);
  if (std::max(cache_case::bytes_needed(of_base.shape, {}, count, context),
               cache_case::bytes_needed(of_variant.shape, v.options, count, context)) > most_bytes) {
    state.SkipWithError("needs too much memory even with the fewest layers");
    return;
  }
  thread_team& team = shared.team(threads);
  cache_case& base =
      shared.base(m.name + std::to_string(count) + "/" + std::to_string(context) + "/" + std::to_string(threads),
                  of_base.shape, count, context, threads);
  cache_case tested(of_variant.shape, v.options, count, context, team);
  base.step();
  tested.step();
  std::vector<double> attend, finalize, to_default;
  bool base_first = false;
  for (auto _ : state) {
    cache_times reference, took;
    base_first = !base_first;
    if (base_first) reference = base.step();
    took = tested.step();
    if (!base_first) reference = base.step();
    attend.push_back(took.attend * scale);
    finalize.push_back(took.finalize * scale);
    to_default.push_back((attend.back() + finalize.back()) / ((reference.attend + reference.finalize) * base_scale));
    state.SetIterationTime(attend.back() + finalize.back());
  }
  const double bytes = static_cast<double>(tested.bytes_read());
  const double speed = bytes * scale / median(attend);
  state.counters["attend_us"] = median(attend) * 1e6;
  state.counters["finalize_us"] = median(finalize) * 1e6;
  state.counters["GB/s"] = speed * 1e-9;
  state.counters["of_roofline"] = speed / shared.read_speed(tested.bytes_read(), team);
  state.counters["to_default"] = median(to_default);
  state.counters["layers"] = static_cast<double>(of_variant.shape.windows.size());
}

std::vector<model> all_models() {
  std::vector<std::int32_t> windows;
  for (int layer = 0; layer < 18; ++layer) windows.push_back(layer % 6 == 5 ? 0 : 512);
  return {{"smollm2", {.heads = 9, .kv_heads = 3, .head_dim = 64, .windows = std::vector<std::int32_t>(30)}, 1},
          {"gemma3", {.heads = 4, .kv_heads = 1, .head_dim = 256, .windows = windows}, 6}};
}

std::vector<variant> all_variants() {
  return {{"default", {}},
          {"eager", {.update = cache_update::eager}},
          {"left", {.layout = cache_layout::left}},
          {"ring", {.layout = cache_layout::ring}},
          {"unstacked", {.stacked = false}},
          {"stage_unstacked", {.stage_stacked = false}},
          {"f32", {.type = line_type::f32}},
          {"bf16", {.type = line_type::bf16}},
          {"int8_group", {.type = line_type::int8, .scale = scale_span::group}},
          {"int8_head", {.type = line_type::int8, .scale = scale_span::head}},
          {"int8_line", {.type = line_type::int8, .scale = scale_span::line}},
          {"shards2", {.shards = 2}}};
}

void register_all(shared_parts& shared) {
  for (const model& m : all_models())
    for (const variant& v : all_variants()) {
      if (v.options.shards > m.shape.kv_heads) continue;
      benchmark::RegisterBenchmark((m.name + "/" + v.name).c_str(),
                                   [&shared, m, v](benchmark::State& state) { run(state, shared, m, v); })
          ->ArgsProduct({{1, 4, 16, 64}, {128, 1024, 4096, 8192}, {1, 2}})
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond);
    }
}

}  // namespace
}  // namespace kvern::bench

int main(int argc, char** argv) {
  kvern::bench::shared_parts shared;
  kvern::bench::register_all(shared);
  return kvern::bench::run_benchmarks(argc, argv);
}
