// Micro-benchmarks of the CPU kernels, with the machine's own bounds beside them: bandwidth of reading memory and peak
// of int8 multiply-adds. `--benchmark_filter=model` gives tokens per second of all matrices of SmolLM2-135M;
// `--benchmark_filter='product/q4_1/fine/.*threads:1/'` a ladder: one weight format by each instruction set and number
// of rows.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstring>
#include <iterator>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/random_floats.hpp"
#include "bench/roofline.hpp"
#include "bench/run_benchmarks.hpp"
#include "gpu/cache/memory_block.hpp"
#include "gpu/cpu/attention.hpp"
#include "gpu/cpu/file_block.hpp"
#include "gpu/cpu/kernels.hpp"
#include "gpu/cpu/line_format.hpp"
#include "gpu/cpu/matrix.hpp"
#include "gpu/cpu/ops.hpp"
#include "gpu/cpu/thread_team.hpp"

namespace kvern::bench {
namespace {

using namespace gpu;       // NOLINT(google-build-using-namespace)
using namespace gpu::cpu;  // NOLINT(google-build-using-namespace)

/// Random bits, with f16 where a block has them, and floats, of ordinary magnitude.
void keep_finite(ggml_type type, std::byte* block) {
  std::uint16_t words[2];
  std::memcpy(words, block, sizeof words);
  switch (type) {
    case ggml_type::f32:
      words[1] = static_cast<std::uint16_t>((words[1] & 0x807fU) | 0x3f00U);
      std::memcpy(block, words, 4);
      return;
    case ggml_type::bf16:
      words[0] = static_cast<std::uint16_t>((words[0] & 0x807fU) | 0x3f00U);
      std::memcpy(block, words, 2);
      return;
    case ggml_type::f16:
      words[0] = static_cast<std::uint16_t>((words[0] & 0x83ffU) | 0x2000U);
      std::memcpy(block, words, 2);
      return;
    default:
      break;
  }
  const std::uint16_t scale = 0x2000;
  const std::size_t size = traits(type).type_size;
  const std::size_t at = type == ggml_type::q2_k                              ? size - 4
                         : type == ggml_type::q3_k || type == ggml_type::q6_k ? size - 2
                                                                              : 0;
  std::memcpy(block + at, &scale, 2);
  if (at != size - 2) std::memcpy(block + at + 2, &scale, 2);
}

std::unique_ptr<matrix> random_matrix(ggml_type type, int rows, int cols, isa i, thread_team& team,
                                      memory_arena& arena) {
  const ggml_type_traits& t = traits(type);
  const std::size_t blocks = static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols) / t.block_size;
  std::vector<std::byte> bytes(blocks * t.type_size);
  std::mt19937_64 engine(11);
  for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    const std::uint64_t word = engine();
    std::memcpy(bytes.data() + at, &word, 8);
  }
  for (std::size_t b = 0; b < blocks; ++b) keep_finite(type, bytes.data() + b * t.type_size);
  gguf_tensor tensor;
  tensor.type = type;
  tensor.dims = {static_cast<std::uint64_t>(cols), static_cast<std::uint64_t>(rows), 1, 1};
  tensor.data = bytes;
  return std::move(*matrix::pack(tensor, 0, static_cast<std::uint64_t>(rows), i, team, arena));
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

/// Of `run`, which is int8_peak or float_peak.
void operations(benchmark::State& state, std::int64_t (*run)(std::int64_t)) {
  thread_team team(static_cast<int>(state.range(0)));
  constexpr std::int64_t parts = 16;
  std::int64_t all = 0;
  for (auto _ : state) {
    std::vector<std::int64_t> done(parts);
    team.run(parts, [&](std::int64_t i) { done[static_cast<std::size_t>(i)] = run(20000); });
    all += std::accumulate(done.begin(), done.end(), std::int64_t{0});
  }
  state.counters["GOPS"] = benchmark::Counter(static_cast<double>(all) * 1e-9, benchmark::Counter::kIsRate);
}

void wake_team(benchmark::State& state) {
  thread_team team(static_cast<int>(state.range(0)));
  for (auto _ : state) team.run(2, [](std::int64_t) {});
}

/// Of one thread, in GOPS.
double int8_peak_rate() {
  static const double rate = [] {
    const auto begin = std::chrono::steady_clock::now();
    std::int64_t operations = 0;
    for (int round = 0; round < 100; ++round) operations += int8_peak(20000);
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    return static_cast<double>(operations) / took.count();
  }();
  return rate;
}

/// GB/s are of packed weights; GOPS of int8 multiply-adds as executed: fine runs two for each weight. `of peak`: their
/// share of what all threads could do.
void product(benchmark::State& state, ggml_type type, int outputs, int cols, activation_mode mode, isa i) {
  const std::int64_t rows = state.range(0);
  thread_team team(static_cast<int>(state.range(1)));
  memory_arena arena;
  const auto m = random_matrix(type, outputs, cols, i, team, arena);
  const auto x = random_floats(static_cast<std::size_t>(rows * cols));
  std::vector<float> out(static_cast<std::size_t>(rows * outputs));
  activations a(mode, i);
  a.assign(x.data(), static_cast<int>(rows), cols, cols, team);
  for (auto _ : state) m->multiply(a, out.data(), outputs, team);

  const bool floats = type == ggml_type::f32 || type == ggml_type::f16 || type == ggml_type::bf16;
  const double planes = mode == activation_mode::fine && !floats ? 2 : 1;
  const double macs = static_cast<double>(outputs) * cols * static_cast<double>(rows);
  const auto n = static_cast<double>(state.iterations());
  const double giga = 2 * planes * macs * n * 1e-9;
  state.counters["GB/s"] = benchmark::Counter(static_cast<double>(m->bytes()) * n * 1e-9, benchmark::Counter::kIsRate);
  state.counters["GOPS"] = benchmark::Counter(giga, benchmark::Counter::kIsRate);
  if (!floats && int8_peak_rate() > 0)
    state.counters["of peak"] = benchmark::Counter(giga / int8_peak_rate() / team.size(), benchmark::Counter::kIsRate);
}

void quantise(benchmark::State& state) {
  const std::int64_t rows = state.range(0);
  thread_team team(static_cast<int>(state.range(1)));
  const auto x = random_floats(static_cast<std::size_t>(rows * 576));
  activations a(activation_mode::fine, best_isa());
  for (auto _ : state) a.assign(x.data(), static_cast<int>(rows), 576, 576, team);
  state.SetItemsProcessed(state.iterations() * rows * 576);
}

/// All matrices of SmolLM2-135M, in the order of a forward pass; the head for one row.
class smollm2 {
 public:
  explicit smollm2(thread_team& team) {
    memory_arena arena;
    for (int layer = 0; layer < 30; ++layer) {
      for (const auto& [outputs, cols] : {std::pair{960, 576}, {576, 576}, {3072, 576}, {576, 1536}}) {
        layers_.push_back(random_matrix(ggml_type::q4_1, outputs, cols, best_isa(), team, arena));
      }
    }
    head_ = random_matrix(ggml_type::q8_0, 49152, 576, best_isa(), team, arena);
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

/// One layer of SmolLM2: `sequences` sequences of `rows` rows each behind a prefix of `prefix` positions of its own.
void attention(benchmark::State& state, line_type type, scale_span span) {
  const auto sequences = static_cast<std::int32_t>(state.range(0)), rows = static_cast<std::int32_t>(state.range(1));
  const auto prefix = static_cast<std::int32_t>(state.range(2));
  thread_team team(static_cast<int>(state.range(3)));
  constexpr int heads = 9, kv_heads = 3, dim = 64, values = kv_heads * dim;
  const int scales = type != line_type::int8     ? 0
                     : span == scale_span::group ? values / 32
                     : span == scale_span::head  ? kv_heads
                                                 : 1;
  const int width = type == line_type::f32 ? 4 : type == line_type::int8 ? 1 : 2;
  const line_format format{type, span, kv_heads, dim, values};
  const std::int64_t bytes = (values * width + scales * 2 + 3) / 4 * 4;
  const std::int32_t blocks = (prefix + rows + page_lines - 1) / page_lines;
  const auto lines_of = [&](std::int32_t n) {
    std::vector<std::byte> part(static_cast<std::size_t>(n * bytes));
    const auto line = random_floats(static_cast<std::size_t>(values));
    for (std::int32_t i = 0; i < n; ++i) store_line(format, line.data(), part.data() + i * bytes, best_isa());
    return part;
  };
  const std::int32_t pages = sequences * blocks;
  const auto k = lines_of(pages * page_lines), v = k, staged = lines_of(sequences * rows);
  const shard_lines lines{.kv_heads = kv_heads,
                          .page_k = {k.data(), bytes},
                          .page_v = {v.data(), bytes},
                          .staged_k = {staged.data(), bytes},
                          .staged_v = {staged.data(), bytes},
                          .scales_offset = values};
  const auto q = random_floats(static_cast<std::size_t>(sequences * rows * heads * dim));
  std::vector<float> out(q.size());
  step s;
  s.sequences.resize(static_cast<std::size_t>(sequences));
  for (std::int32_t n = 0; n < sequences; ++n) {
    step_sequence& sequence = s.sequences[static_cast<std::size_t>(n)];
    sequence.committed = prefix;
    sequence.pages.resize(static_cast<std::size_t>(blocks));
    std::iota(sequence.pages.begin(), sequence.pages.end(), n * blocks);
    for (std::int32_t r = 0; r < rows; ++r) s.rows.push_back({0, prefix + r, n, false});
  }
  for (auto _ : state) {
    attend({.heads = heads,
            .kv_heads = kv_heads,
            .head_dim = dim,
            .scale = 0.125F,
            .type = type,
            .span = span,
            .q = q.data(),
            .out = out.data(),
            .shards = {&lines, 1},
            .what = &s},
           best_isa(), team);
  }
  const double keys = static_cast<double>(sequences) * rows * (static_cast<double>(prefix) + (rows + 1) / 2.0);
  state.counters["GFLOPS"] = benchmark::Counter(static_cast<double>(state.iterations()) * keys * heads * dim * 4 * 1e-9,
                                                benchmark::Counter::kIsRate);
  state.counters["rows/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * sequences * rows, benchmark::Counter::kIsRate);
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
  add("float_operations", [](benchmark::State& state) { operations(state, float_peak); })
      ->ArgsProduct({thread_counts})
      ->ArgNames({"threads"});
  add("int8_operations", [](benchmark::State& state) { operations(state, int8_peak); })
      ->ArgsProduct({thread_counts})
      ->ArgNames({"threads"});
  add("wake_team", wake_team)->ArgsProduct({thread_counts})->ArgNames({"threads"});
  add("elementwise", elementwise);
  add("quantise", quantise)->ArgsProduct({{1, 8, 512}, thread_counts})->ArgNames({"rows", "threads"});
  for (const activation_mode mode : {activation_mode::fine, activation_mode::fast}) {
    const std::string suffix = mode == activation_mode::fine ? "/fine" : "/fast";
    const auto products = [&](const std::string& name, ggml_type type, int outputs, int cols) {
      add("product/" + name + suffix, [=](benchmark::State& s) { product(s, type, outputs, cols, mode, best_isa()); })
          ->ArgsProduct({row_counts, thread_counts})
          ->ArgNames({"rows", "threads"});
    };
    products("q4_1_qkv_960x576", ggml_type::q4_1, 960, 576);
    products("q4_1_gate_up_3072x576", ggml_type::q4_1, 3072, 576);
    products("q4_1_down_576x1536", ggml_type::q4_1, 576, 1536);
    products("q8_0_head_49152x576", ggml_type::q8_0, 49152, 576);
    add("model" + suffix, [=](benchmark::State& s) { model(s, mode); })
        ->ArgsProduct({row_counts, thread_counts})
        ->ArgNames({"rows", "threads"});
  }
  // The formats, each by all instruction sets.
  const auto rung = [&](const std::string& name, ggml_type type, activation_mode mode, isa i) {
    add("product/" + name + "/" + to_string(i), [=](benchmark::State& s) { product(s, type, 3072, 768, mode, i); })
        ->ArgsProduct({{1, 4, 8, 64, 512}, thread_counts})
        ->ArgNames({"rows", "threads"});
  };
  for (const isa i : {isa::scalar, isa::avx2, isa::avx_vnni, isa::avx512_vnni}) {
    if (!supported(i)) continue;
    rung("f32", ggml_type::f32, activation_mode::fine, i);
    rung("f16", ggml_type::f16, activation_mode::fine, i);
    rung("bf16", ggml_type::bf16, activation_mode::fine, i);
    for (int p = 0; p < static_cast<int>(std::size(packing_forms)); ++p) {
      const ggml_type type = type_of(static_cast<packing>(p));
      std::string name(traits(type).name);
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      rung(name + "/fine", type, activation_mode::fine, i);
      rung(name + "/fast", type, activation_mode::fast, i);
    }
  }
  for (const auto& [name, type, span] : {std::tuple{"f16", line_type::f16, scale_span::group},
                                         {"f32", line_type::f32, scale_span::group},
                                         {"bf16", line_type::bf16, scale_span::group},
                                         {"int8_group", line_type::int8, scale_span::group},
                                         {"int8_head", line_type::int8, scale_span::head}})
    add(std::string("attention/") + name, [t = type, p = span](benchmark::State& s) { attention(s, t, p); })
        ->ArgsProduct({{1, 8, 64}, {1}, {127, 511, 2047, 8191}, thread_counts})
        ->ArgsProduct({{1}, {512}, {0, 2048}, thread_counts})
        ->ArgNames({"sequences", "rows", "prefix", "threads"});
}

}  // namespace
}  // namespace kvern::bench

int main(int argc, char** argv) {
  kvern::bench::register_all();
  return kvern::bench::run_benchmarks(argc, argv);
}
