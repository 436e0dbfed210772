#pragma once

#include <benchmark/benchmark.h>

namespace kvern::bench {

/// Runs what has been registered, as the command line says. Returns the program's exit code.
inline int run_benchmarks(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace kvern::bench
