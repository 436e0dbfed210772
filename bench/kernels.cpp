// Micro-benchmarks of the CPU kernels, with the machine's own bounds beside them: bandwidth of reading memory and peak
// of int8 multiply-adds. `--benchmark_filter=model` gives tokens per second of all matrices of SmolLM2-135M.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "bench/roofline.hpp"
#include "gpu/cache/memory_block.hpp"
#include "gpu/cpu/attention.hpp"
#include "gpu/cpu/matrix.hpp"
#include "gpu/cpu/ops.hpp"
#include "gpu/cpu/thread_team.hpp"

namespace kvern::bench {
namespace {

using namespace gpu;       // NOLINT(google-build-using-namespace)
using namespace gpu::cpu;  // NOLINT(google-build-using-namespace)

std::vector<float> random_floats(std::size_t n) {
  std::mt19937 engine(7);
  std::normal_distribution<float> d;
  std::vector<float> v(n);
  for (float& x : v) x = d(engine);
  return v;
}

std::unique_ptr<matrix> random_matrix(ggml_type type, int rows, int cols, thread_team& team) {
  const ggml_type_traits& t = traits(type);
  const std::size_t blocks = static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols) / t.block_size;
  std::vector<std::byte> bytes(blocks * t.type_size);
  std::mt19937_64 engine(11);
  for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    const std::uint64_t word = engine();
    std::memcpy(bytes.data() + i, &word, 8);
  }
  const std::uint16_t scale = 0x2000;
  for (std::size_t b = 0; b < blocks; ++b) {
    std::memcpy(bytes.data() + b * t.type_size, &scale, 2);
    if (type == ggml_type::q4_1) std::memcpy(bytes.data() + b * t.type_size + 2, &scale, 2);
    if (type == ggml_type::q4_k || type == ggml_type::q6_k) {
      std::memcpy(bytes.data() + b * t.type_size + (type == ggml_type::q6_k ? t.type_size - 2 : 2), &scale, 2);
    }
  }
  gguf_tensor tensor;
  tensor.type = type;
  tensor.dims = {static_cast<std::uint64_t>(cols), static_cast<std::uint64_t>(rows), 1, 1};
  tensor.data = bytes;
  return std::move(*matrix::pack(tensor, 0, static_cast<std::uint64_t>(rows), best_isa(), team));
}

void read_memory(benchmark::State& state) {
  thread_team team(static_cast<int>(state.range(0)));
  const auto bytes = static_cast<std::uint64_t>(state.range(1)) << 20;
  const auto block = std::move(*memory_block::create(bytes, "bandwidth"));
  std::memset(block.data(), 1, bytes);
  constexpr std::uint64_t part = 64 << 10;
  for (auto _ : state) {
    team.run(static_cast<std::int64_t>(bytes / part), [&](std::int64_t i) {
      benchmark::DoNotOptimize(read_all({block.data() + static_cast<std::uint64_t>(i) * part, part}));
    });
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

void int8_operations(benchmark::State& state) {
  thread_team team(static_cast<int>(state.range(0)));
  constexpr std::int64_t parts = 16;
  std::int64_t operations = 0;
  for (auto _ : state) {
    std::vector<std::int64_t> done(parts);
    team.run(parts, [&](std::int64_t i) { done[static_cast<std::size_t>(i)] = int8_peak(20000); });
    operations += std::accumulate(done.begin(), done.end(), std::int64_t{0});
  }
  state.counters["GOPS"] = benchmark::Counter(static_cast<double>(operations) * 1e-9, benchmark::Counter::kIsRate);
}

void wake_team(benchmark::State& state) {
  thread_team team(static_cast<int>(state.range(0)));
  for (auto _ : state) team.run(2, [](std::int64_t) {});
}

/// GB/s are of packed weights; GOPS of int8 multiply-adds as executed: fine runs two for each weight.
void count_product(benchmark::State& state, const matrix& m, std::int64_t rows, activation_mode mode) {
  const double macs = static_cast<double>(m.rows()) * m.cols() * static_cast<double>(rows);
  const double planes = mode == activation_mode::fine ? 2 : 1;
  const auto n = static_cast<double>(state.iterations());
  state.counters["GB/s"] = benchmark::Counter(static_cast<double>(m.bytes()) * n * 1e-9, benchmark::Counter::kIsRate);
  state.counters["GOPS"] = benchmark::Counter(2 * planes * macs * n * 1e-9, benchmark::Counter::kIsRate);
}

void product(benchmark::State& state, ggml_type type, int outputs, int cols, activation_mode mode) {
  const std::int64_t rows = state.range(0);
  thread_team team(static_cast<int>(state.range(1)));
  const auto m = random_matrix(type, outputs, cols, team);
  const auto x = random_floats(static_cast<std::size_t>(rows * cols));
  std::vector<float> out(static_cast<std::size_t>(rows * outputs));
  activations a(mode, best_isa());
  a.assign(x.data(), static_cast<int>(rows), cols, cols, team);
  for (auto _ : state) m->multiply(a, out.data(), outputs, team);
  count_product(state, *m, rows, mode);
}

void quantise(benchmark::State& state) {
  const std::int64_t rows = state.range(0);
  thread_team team(static_cast<int>(state.range(1)));
  const auto x = random_floats(static_cast<std::size_t>(rows * 576));
  activations a(activation_mode::fine, best_isa());
  for (auto _ : state) a.assign(x.data(), static_cast<int>(rows), 576, 576, team);
  state.SetItemsProcessed(state.iterations() * rows * 576);
}

/// All matrices of SmolLM2-135M, each with memory of its own, in the order of a forward pass; the head for one row.
class smollm2 {
 public:
  explicit smollm2(thread_team& team) {
    for (int layer = 0; layer < 30; ++layer) {
      for (const auto& [outputs, cols] : {std::pair{960, 576}, {576, 576}, {3072, 576}, {576, 1536}}) {
        layers_.push_back(random_matrix(ggml_type::q4_1, outputs, cols, team));
      }
    }
    head_ = random_matrix(ggml_type::q8_0, 49152, 576, team);
  }
  std::uint64_t bytes() const {
    std::uint64_t sum = head_->bytes();
    for (const auto& m : layers_) sum += m->bytes();
    return sum;
  }
  void run(activations& a, const float* x, float* out, int rows, bool head, thread_team& team) const {
    for (const auto& m : layers_) {
      a.assign(x, rows, m->cols(), 1536, team);
      m->multiply(a, out, m->rows(), team);
    }
    if (!head) return;
    a.assign(x, 1, head_->cols(), 1536, team);
    head_->multiply(a, out, head_->rows(), team);
  }

 private:
  std::vector<std::unique_ptr<matrix>> layers_;
  std::unique_ptr<matrix> head_;
};

void model(benchmark::State& state, activation_mode mode) {
  const auto rows = static_cast<int>(state.range(0));
  thread_team team(static_cast<int>(state.range(1)));
  const smollm2 weights(team);
  const auto x = random_floats(static_cast<std::size_t>(rows) * 1536);
  std::vector<float> out(std::max<std::size_t>(49152, static_cast<std::size_t>(rows) * 3072));
  activations a(mode, best_isa());
  for (auto _ : state) weights.run(a, x.data(), out.data(), rows, true, team);
  const auto n = static_cast<double>(state.iterations());
  state.counters["tokens/s"] = benchmark::Counter(n * rows, benchmark::Counter::kIsRate);
  state.counters["GB/s"] =
      benchmark::Counter(n * static_cast<double>(weights.bytes()) * 1e-9, benchmark::Counter::kIsRate);
}

/// One layer of SmolLM2: `rows` rows behind a prefix of `prefix` positions, f16 lines.
void attention(benchmark::State& state) {
  const auto rows = static_cast<std::int32_t>(state.range(0)), prefix = static_cast<std::int32_t>(state.range(1));
  thread_team team(static_cast<int>(state.range(2)));
  constexpr int heads = 9, kv_heads = 3, dim = 64, line = kv_heads * dim;
  const std::int32_t pages = (prefix + rows + page_lines - 1) / page_lines;
  std::vector<std::uint16_t> k(static_cast<std::size_t>(pages * page_lines * line)),
      staged(static_cast<std::size_t>(rows * line));
  const auto values = random_floats(k.size());
  to_half(values.data(), k.data(), static_cast<std::int64_t>(k.size()), best_isa());
  const auto v = k;
  to_half(values.data(), staged.data(), static_cast<std::int64_t>(staged.size()), best_isa());
  const auto q = random_floats(static_cast<std::size_t>(rows * heads * dim));
  std::vector<float> out(q.size());
  step s;
  s.sequences.resize(1);
  s.sequences[0].committed = prefix;
  s.sequences[0].pages.resize(static_cast<std::size_t>(pages));
  std::iota(s.sequences[0].pages.begin(), s.sequences[0].pages.end(), 0);
  for (std::int32_t r = 0; r < rows; ++r) s.rows.push_back({0, prefix + r, 0, false});
  const auto view = [](const std::vector<std::uint16_t>& lines) -> line_view {
    return {reinterpret_cast<const std::byte*>(lines.data()), line * 2};
  };
  const shard_lines all{
      .kv_heads = kv_heads, .page_k = view(k), .page_v = view(v), .staged_k = view(staged), .staged_v = view(staged)};
  for (auto _ : state) {
    attend({.heads = heads,
            .kv_heads = kv_heads,
            .head_dim = dim,
            .scale = 0.125F,
            .type = line_type::f16,
            .q = q.data(),
            .out = out.data(),
            .shards = {&all, 1},
            .what = &s},
           best_isa(), team);
  }
  const double keys = static_cast<double>(rows) * (static_cast<double>(prefix) + (rows + 1) / 2.0);
  state.counters["GFLOPS"] = benchmark::Counter(static_cast<double>(state.iterations()) * keys * heads * dim * 4 * 1e-9,
                                                benchmark::Counter::kIsRate);
  state.counters["rows/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * rows, benchmark::Counter::kIsRate);
}

void elementwise(benchmark::State& state) {
  const auto g = random_floats(1536), u = random_floats(1536);
  std::vector<float> out(1536);
  for (auto _ : state) {
    silu_mul(g.data(), u.data(), out.data(), 1536, best_isa());
    rms_norm(u.data(), g.data(), 1e-5F, out.data(), 576, best_isa());
    benchmark::ClobberMemory();
  }
}

const std::vector<std::int64_t> row_counts{1, 2, 4, 8, 16, 32, 64, 128, 512};
const std::vector<std::int64_t> thread_counts{1, 2};

void register_all() {
  const auto add = [](const std::string& name, auto f) {
    return benchmark::RegisterBenchmark(name.c_str(), f)->UseRealTime();
  };
  add("read_memory", read_memory)->ArgsProduct({thread_counts, {8, 256}})->ArgNames({"threads", "MiB"});
  add("int8_operations", int8_operations)->ArgsProduct({thread_counts})->ArgNames({"threads"});
  add("wake_team", wake_team)->ArgsProduct({thread_counts})->ArgNames({"threads"});
  add("elementwise", elementwise);
  add("quantise", quantise)->ArgsProduct({{1, 8, 512}, thread_counts})->ArgNames({"rows", "threads"});
  for (const activation_mode mode : {activation_mode::fine, activation_mode::fast}) {
    const std::string suffix = mode == activation_mode::fine ? "/fine" : "/fast";
    const auto products = [&](const std::string& name, ggml_type type, int outputs, int cols) {
      add("product/" + name + suffix, [=](benchmark::State& s) { product(s, type, outputs, cols, mode); })
          ->ArgsProduct({row_counts, thread_counts})
          ->ArgNames({"rows", "threads"});
    };
    products("q4_1_qkv_960x576", ggml_type::q4_1, 960, 576);
    products("q4_1_gate_up_3072x576", ggml_type::q4_1, 3072, 576);
    products("q4_1_down_576x1536", ggml_type::q4_1, 576, 1536);
    products("q4_0_gate_up_3072x576", ggml_type::q4_0, 3072, 576);
    products("q8_0_head_49152x576", ggml_type::q8_0, 49152, 576);
    add("model" + suffix, [=](benchmark::State& s) { model(s, mode); })
        ->ArgsProduct({row_counts, thread_counts})
        ->ArgNames({"rows", "threads"});
  }
  for (const auto& [name, type] :
       {std::pair{"f32", ggml_type::f32}, {"f16", ggml_type::f16}, {"q6_k", ggml_type::q6_k}}) {
    add(std::string("product/") + name + "_gate_up_3072x768",
        [t = type](benchmark::State& s) { product(s, t, 3072, 768, activation_mode::fine); })
        ->ArgsProduct({{1, 8, 64}, thread_counts})
        ->ArgNames({"rows", "threads"});
  }
  add("attention", attention)
      ->ArgsProduct({{1}, {31, 511, 4095}, thread_counts})
      ->ArgsProduct({{512}, {0, 2048}, thread_counts})
      ->ArgNames({"rows", "prefix", "threads"});
}

}  // namespace
}  // namespace kvern::bench

int main(int argc, char** argv) {
  kvern::bench::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
