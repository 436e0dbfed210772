// Speed of the forward pass alone, without engine and sampling: a prompt in steps of at most so many rows (ppN) and
// decoding (tgN), after an empty context or one of --depth positions, random tokens, median of several repetitions.
// Beside decoding one sequence from an empty context stands its bound: how fast as many bytes as the weights have are
// read by as many threads, in the same run.

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
  int chunk = 512;
  int generate = 128;
  int depth = 0;
  int batch = 1;
  int beside = 0;
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

/// `rows` further rows of each of the first `busy` sequences and one of each other, computed and committed; logits of
/// the last ones.
void advance(backend& b, step& s, std::size_t busy, int most, std::mt19937& random) {
  s.rows.clear();
  for (std::size_t n = 0; n < s.sequences.size(); ++n) {
    const int rows = n < busy ? most : 1;
    for (int r = 0; r < rows; ++r)
      s.rows.push_back({.token = static_cast<token_id>(random() % static_cast<unsigned>(b.info().vocab)),
                        .position = s.sequences[n].committed + r,
                        .sequence = static_cast<std::int32_t>(n),
                        .logits = r + 1 == rows});
  }
  if (const auto done = b.forward(s); !done) give_up(done.error());
  std::vector<std::int32_t> accepted(s.rows.size());
  std::iota(accepted.begin(), accepted.end(), 0);
  if (const auto done = b.finalize(accepted); !done) give_up(done.error());
  for (const step_row& row : s.rows) ++s.sequences[static_cast<std::size_t>(row.sequence)].committed;
}

/// The positions that every sequence of a measurement starts with, and those that are timed: in steps of at most
/// `chunk` rows.
struct course {
  int depth;
  int positions;
  int chunk;
};

void advance_by(backend& b, step& s, std::size_t busy, int positions, int chunk, std::mt19937& random) {
  for (int left = positions; left > 0; left -= chunk) advance(b, s, busy, std::min(left, chunk), random);
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

/// Tokens a second of `sequences` sequences behind the same lines each time, while `beside` others get a row a step
/// each.
speed measure(backend& b, const std::string& name, int sequences, int beside, const course& c, int depth_chunk,
              int repetitions) {
  const auto busy = static_cast<std::size_t>(sequences);
  std::mt19937 random(1);
  step s;
  s.sequences = make_sequences(sequences + beside, c.depth + c.positions, b.info().windows.size());
  advance_by(b, s, busy, c.depth, depth_chunk, random);
  std::vector<double> speeds;
  for (int repetition = -1; repetition < repetitions; ++repetition) {  // the first warms up
    for (std::size_t n = 0; n < busy; ++n) s.sequences[n].committed = c.depth;
    for (std::size_t n = busy; n < s.sequences.size(); ++n) s.sequences[n].committed = 0;
    const auto start = std::chrono::steady_clock::now();
    advance_by(b, s, busy, c.positions, c.chunk, random);
    if (repetition >= 0) speeds.push_back(static_cast<double>(sequences) * c.positions / seconds_since(start));
  }
  const speed found = summary(std::move(speeds));
  fmt::print("{:>16}  {:9.1f} tokens/s  ({:.1f} to {:.1f})\n", name, found.median, found.least, found.most);
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
      "                  {:9.1f} MB a token, {:.1f} GB/s; as many bytes are read at {:.1f} GB/s ({:.1f} to {:.1f}): "
      "{:.0f} "
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
  app.add_option("-p,--prompt", o.prompt, "tokens of the prompt; 0: none")->check(CLI::Range(0, 8192));
  app.add_option("-c,--chunk", o.chunk, "most rows of a prompt's step")->check(CLI::Range(1, 4096));
  app.add_option("-n,--generate", o.generate, "tokens to decode; 0: none")->check(CLI::Range(0, 4096));
  app.add_option("-d,--depth", o.depth, "committed positions before both")->check(CLI::Range(0, 8192));
  app.add_option("-b,--batch", o.batch, "sequences that decode together")->check(CLI::Range(1, 512));
  app.add_option("--beside", o.beside, "sequences that decode a token in each step of the prompt")
      ->check(CLI::Range(0, 512));
  app.add_option("-r,--repetitions", o.repetitions, "measurements of each")->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);

  auto file = gguf_file::open(o.model);
  if (!file) give_up(file.error());
  const int threads = o.threads > 0 ? o.threads : cpu::usable_cores();
  const int positions = o.depth + std::max({o.prompt, o.generate, 1});
  const int depth_chunk = std::max(1, o.chunk / o.batch);
  const cpu::cpu_options options{
      .threads = threads,
      .context = positions,
      .kv_memory = std::uint64_t{1} << 30,
      .cache = {.type = o.kv == "f16" ? line_type::f16 : line_type::f32},
      .activations = o.activations == "fine" ? cpu::activation_mode::fine : cpu::activation_mode::fast,
      .max_rows = std::max(o.chunk + o.beside, o.batch)};
  auto loaded = cpu::load_cpu_backend(*file, options);
  if (!loaded) give_up(loaded.error());
  backend& b = **loaded;
  const auto pages_of = [&](int count) {
    return (o.depth + count + page_lines - 1) / page_lines * static_cast<int>(b.info().windows.size());
  };
  const int pages_needed = std::max((1 + o.beside) * pages_of(o.prompt), o.batch * pages_of(o.generate));
  if (pages_needed > b.info().pages)
    give_up({"kv_memory_too_small",
             "These sequences need more than 1 GiB of lines: lower --depth, --batch or --generate."});
  fmt::print("{}, {}, {} activations, {} lines, {:.0f} MB of weights\n", (*file)->file_name(), b.info().kernels,
             o.activations, o.kv, static_cast<double>(b.info().weight_bytes) / 1e6);
  const std::string behind = o.depth > 0 ? fmt::format(" @ {}", o.depth) : "";
  if (o.prompt > 0)
    measure(b, fmt::format("pp{}{}", o.prompt, behind), 1, o.beside, {o.depth, o.prompt, o.chunk}, o.chunk,
            o.repetitions);
  if (o.generate > 0) {
    const std::string batch = o.batch > 1 ? fmt::format(" x {}", o.batch) : "";
    const speed decoded = measure(b, fmt::format("tg{}{}{}", o.generate, batch, behind), o.batch, 0,
                                  {o.depth, o.generate, 1}, depth_chunk, o.repetitions);
    if (o.batch == 1 && o.depth == 0)
      compare_with_bandwidth(b.info().weight_bytes, decoded, read_speed(b.info().weight_bytes, threads));
  }
  return 0;
}
