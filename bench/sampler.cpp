// What choosing one token costs, for the vocabularies of SmolLM2 and Gemma 3 and the settings that differ in work.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "bench/run_benchmarks.hpp"
#include "model/sampler/sampler.hpp"

namespace kvern::bench {
namespace {

/// Logits as a model gives them: most of them alike, a few that stand out.
std::vector<float> logits_of(std::size_t vocab) {
  std::mt19937 random(3);
  std::normal_distribution<float> common(0, 2.5F), rare(14, 2);
  std::vector<float> logits(vocab);
  for (std::size_t i = 0; i < vocab; ++i) logits[i] = i % 4096 == 7 ? rare(random) : common(random);
  return logits;
}

void choose(benchmark::State& state, const sampling_params& params, int alternatives) {
  const auto logits = logits_of(static_cast<std::size_t>(state.range(0)));
  std::vector<token_id> history(1000);
  for (std::size_t i = 0; i < history.size(); ++i) history[i] = static_cast<token_id>(i * 31 % logits.size());
  sampler chooser(params, static_cast<std::int32_t>(logits.size()), 1);
  for (auto _ : state) benchmark::DoNotOptimize(chooser.next(logits, history, alternatives));
}

void register_all() {
  sampling_params usual;
  usual.seed = 1;
  sampling_params greedy = usual, penalties = usual, top_p = usual, min_p = usual, typical = usual, all = usual;
  greedy.temperature = 0;
  penalties.repetition_penalty = 1.1;
  top_p.top_k = min_p.top_k = typical.top_k = all.top_k = 0;
  top_p.min_p = typical.min_p = all.min_p = 0;
  min_p.top_p = typical.top_p = all.top_p = 1;
  typical.typical_p = 0.9;
  const auto add = [](const std::string& name, const sampling_params& params, int alternatives) {
    benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& s) { choose(s, params, alternatives); })
        ->Arg(49152)
        ->Arg(262144)
        ->ArgName("vocab")
        ->Unit(benchmark::kMicrosecond);
  };
  add("greedy", greedy, -1);
  add("greedy_logprobs", greedy, 5);
  add("usual", usual, -1);
  add("usual_penalties", penalties, -1);
  add("top_p_only", top_p, -1);
  add("min_p_only", min_p, -1);
  add("typical_only", typical, -1);
  add("whole_vocabulary", all, -1);
}

}  // namespace
}  // namespace kvern::bench

int main(int argc, char** argv) {
  kvern::bench::register_all();
  return kvern::bench::run_benchmarks(argc, argv);
}
