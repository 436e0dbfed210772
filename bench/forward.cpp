// Speed of the forward pass alone, without engine and sampling: prompt rows in one step (ppN) and decoding after an
// empty context (tgN), random tokens, median of several repetitions. Beside decoding stands its bound: how fast as many
// bytes as the weights have are read by as many threads, in the same run.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "bench/roofline.hpp"
#include "gpu/cache/memory_block.hpp"
#include "gpu/cpu/cpu_backend.hpp"
#include "gpu/cpu/machine.hpp"
#include "gpu/cpu/thread_team.hpp"
#include "model/gguf/gguf.hpp"

namespace {

using namespace kvern;
using namespace kvern::gpu;

struct settings {
  std::string model;
  int threads = 0;
  std::string activations = "fine";
  std::string kv = "f16";
  int prompt = 512;
  int generate = 128;
  int batch = 1;
  int repetitions = 5;
};

[[noreturn]] void give_up(const error& why) {
  fmt::print(stderr, "{}: {}\n", why.code, why.message);
  std::exit(1);
}

/// `count` sequences, each with pages for `positions` in every table.
std::vector<step_sequence> make_sequences(int count, int positions, std::size_t tables) {
  std::vector<step_sequence> all(static_cast<std::size_t>(count));
  page_id next = 0;
  for (step_sequence& sequence : all)
    for (std::size_t table = 0; table < tables; ++table)
      for (int at = 0; at < positions; at += page_lines) sequence.pages.push_back(next++);
  return all;
}

/// `rows` further rows of every sequence, computed and committed; logits of the last ones.
void advance(backend& b, step& s, int rows, std::mt19937& random) {
  s.rows.clear();
  for (std::size_t n = 0; n < s.sequences.size(); ++n)
    for (int r = 0; r < rows; ++r)
      s.rows.push_back({.token = static_cast<token_id>(random() % static_cast<unsigned>(b.info().vocab)),
                        .position = s.sequences[n].committed + r,
                        .sequence = static_cast<std::int32_t>(n),
                        .logits = r + 1 == rows});
  if (const auto done = b.forward(s); !done) give_up(done.error());
  std::vector<std::int32_t> accepted(s.rows.size());
  std::iota(accepted.begin(), accepted.end(), 0);
  if (const auto done = b.finalize(accepted); !done) give_up(done.error());
  for (step_sequence& sequence : s.sequences) sequence.committed += rows;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Middle, least and most of the repetitions.
struct speed {
  double median, least, most;
};

speed summary(std::vector<double> of) {
  std::sort(of.begin(), of.end());
  return {of[of.size() / 2], of.front(), of.back()};
}

/// Tokens a second: `steps` steps of `rows` rows of `sequences` sequences.
speed measure(backend& b, const std::string& name, int sequences, int rows, int steps, int repetitions) {
  std::mt19937 random(1);
  std::vector<double> speeds;
  for (int repetition = -1; repetition < repetitions; ++repetition) {  // the first warms up
    step s;
    s.sequences = make_sequences(sequences, rows * steps, b.info().windows.size());
    const auto start = std::chrono::steady_clock::now();
    for (int n = 0; n < steps; ++n) advance(b, s, rows, random);
    if (repetition >= 0) speeds.push_back(static_cast<double>(sequences) * rows * steps / seconds_since(start));
  }
  const speed found = summary(std::move(speeds));
  fmt::print("{:>10}  {:9.1f} tokens/s  ({:.1f} to {:.1f})\n", name, found.median, found.least, found.most);
  return found;
}

/// Reads `bytes` bytes over and over, for about half a second, as a team does that reads all weights once a step.
/// Bytes a second.
speed read_speed(std::uint64_t bytes, int threads) {
  cpu::thread_team team(threads);
  auto block = memory_block::create(bytes, "measuring the bandwidth");
  if (!block) give_up(block.error());
  std::memset(block->data(), 1, bytes);
  constexpr std::uint64_t part = 64 << 10;
  std::atomic<std::uint64_t> seen{0};
  std::vector<double> speeds;
  const auto begin = std::chrono::steady_clock::now();
  while (speeds.size() < 5 || seconds_since(begin) < 0.5) {
    const auto start = std::chrono::steady_clock::now();
    team.run(static_cast<std::int64_t>((bytes + part - 1) / part), [&](std::int64_t i) {
      const std::uint64_t first = static_cast<std::uint64_t>(i) * part;
      seen += bench::read_all({block->data() + first, std::min(part, bytes - first)});
    });
    speeds.push_back(static_cast<double>(bytes) / seconds_since(start));
  }
  return summary(std::move(speeds));
}

/// What share of the bandwidth decoding one sequence uses: every token reads all weights once.
void compare_with_bandwidth(std::uint64_t bytes, const speed& decoded, const speed& read) {
  const double used = static_cast<double>(bytes) * decoded.median;
  fmt::print(
      "            {:9.1f} MB a token, {:.1f} GB/s; as many bytes are read at {:.1f} GB/s ({:.1f} to {:.1f}): {:.0f} "
      "%\n",
      static_cast<double>(bytes) * 1e-6, used * 1e-9, read.median * 1e-9, read.least * 1e-9, read.most * 1e-9,
      100 * used / read.median);
}

}  // namespace

int main(int argc, char** argv) {
  settings o;
  CLI::App app{"Speed of Kvern's forward pass"};
  app.add_option("model", o.model, "GGUF file")->required();
  app.add_option("-t,--threads", o.threads, "compute threads; 0: physical cores");
  app.add_option("-a,--activations", o.activations, "precision of activations")->check(CLI::IsMember({"fine", "fast"}));
  app.add_option("--kv", o.kv, "type of KV lines")->check(CLI::IsMember({"f16", "f32"}));
  app.add_option("-p,--prompt", o.prompt, "rows of the prompt step; 0: none")->check(CLI::Range(0, 4096));
  app.add_option("-n,--generate", o.generate, "tokens to decode; 0: none")->check(CLI::Range(0, 4096));
  app.add_option("-b,--batch", o.batch, "sequences that decode together")->check(CLI::Range(1, 512));
  app.add_option("-r,--repetitions", o.repetitions, "measurements of each")->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);

  auto file = gguf_file::open(o.model);
  if (!file) give_up(file.error());
  const int threads = o.threads > 0 ? o.threads : cpu::usable_cores();
  const int positions = std::max({o.prompt, o.generate, 1});
  const cpu::cpu_options options{
      .threads = threads,
      .context = positions,
      .kv_memory = std::uint64_t{1} << 30,
      .cache = {.type = o.kv == "f16" ? line_type::f16 : line_type::f32},
      .activations = o.activations == "fine" ? cpu::activation_mode::fine : cpu::activation_mode::fast,
      .max_rows = std::max(o.prompt, o.batch)};
  auto loaded = cpu::load_cpu_backend(*file, options);
  if (!loaded) give_up(loaded.error());
  backend& b = **loaded;
  const int pages_of_one = (o.generate + page_lines - 1) / page_lines * static_cast<int>(b.info().windows.size());
  const int pages_needed = o.batch * pages_of_one;
  if (pages_needed > b.info().pages)
    give_up({"kv_memory_too_small", "These sequences need more than 1 GiB of lines: lower --batch or --generate."});
  fmt::print("{}, {}, {} activations, {} lines, {:.0f} MB of weights\n", (*file)->file_name(), b.info().kernels,
             o.activations, o.kv, static_cast<double>(b.info().weight_bytes) / 1e6);
  if (o.prompt > 0) measure(b, fmt::format("pp{}", o.prompt), 1, o.prompt, 1, o.repetitions);
  if (o.generate > 0) {
    const std::string name =
        o.batch == 1 ? fmt::format("tg{}", o.generate) : fmt::format("tg{} x {}", o.generate, o.batch);
    const speed decoded = measure(b, name, o.batch, 1, o.generate, o.repetitions);
    if (o.batch == 1)
      compare_with_bandwidth(b.info().weight_bytes, decoded, read_speed(b.info().weight_bytes, threads));
  }
  return 0;
}
