#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "gpu/backend.hpp"
#include "gpu/cache/cache_options.hpp"
#include "gpu/cpu/matrix.hpp"
#include "model/gguf/gguf.hpp"

namespace kvern::gpu::cpu {

struct cpu_options {
  int threads = 0;           ///< 0: physical cores this process may use
  std::int32_t context = 0;  ///< positions a sequence may have; 0: what the model was trained for, at most 8192
  std::uint64_t kv_memory =
      0;  ///< bytes for pages; 0: a quarter of the free memory, and what 8 full contexts need at most
  cache_options cache{};
  activation_mode activations = activation_mode::fine;
  std::int32_t max_rows = 512;                ///< rows a step may have
  std::function<void(double)> progress{};     ///< share of the weights packed, 0 to 1; from the loading thread
  std::optional<std::uint64_t> page_noise{};  ///< for tests: pages begin with random bits of this seed, not zeros
};

/// Loads a model of a known architecture for the CPU. Errors: `model_unsupported` (architecture, named),
/// `model_invalid` (a tensor or key missing or of the wrong shape, named), `kv_memory_too_small` (one full context does
/// not fit; says what would), `context_too_large`, `invalid_option`, `invalid_cache_options`, `out_of_memory`,
/// `threads_unavailable`. The memory of weights, pages, staged lines and a step's activations is had here, none of it
/// by forward.
result<std::unique_ptr<backend>> load_cpu_backend(const std::shared_ptr<const gguf_file>& file,
                                                  const cpu_options& options);

}  // namespace kvern::gpu::cpu
