#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "gpu/backend.hpp"
#include "gpu/cache/cache_options.hpp"
#include "gpu/cache/page_tables.hpp"
#include "gpu/cpu/kv_store.hpp"
#include "gpu/cpu/thread_team.hpp"

namespace kvern::bench {

/// Thread-safe only as far as the store is; errors end the program with a sentence on stderr, as fits a benchmark.
[[noreturn]] void give_up(const error& why);

/// `count` sequences that decode at position `context` - 1, and how many pages they take. Only blocks that this row
/// sees have pages: scattered over the whole memory with `paged`, side by side with `left`, and with `ring` side by
/// side from the middle of such a run.
struct placed_sequences {
  std::vector<gpu::step_sequence> sequences;
  std::int32_t pages = 0;
};
placed_sequences place_sequences(const gpu::page_tables& tables, gpu::cache_layout layout, std::int32_t count,
                                 std::int32_t context);

/// Random lines in every page of a store that was created with `how`.
void fill_pages(gpu::cpu::kv_store& store, const gpu::cpu::kv_store::settings& how, gpu::cpu::thread_team& team);

/// The line that each row of `s` goes to, [row][table]: what step_check finds.
std::vector<std::int64_t> lines_of(const gpu::step& s, std::size_t tables);

/// Attention of a model, as far as a cache is concerned.
struct attention_shape {
  std::int32_t heads = 0;
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  std::vector<std::int32_t> windows;  ///< [layer], 0 for none
};

struct cache_times {
  double attend = 0;    ///< seconds, all layers
  double finalize = 0;  ///< seconds
};

/// Decode steps of `count` sequences behind `context` - 1 positions through a KV store of its own, without a model.
class cache_case {
 public:
  /// `team` must outlive this.
  cache_case(attention_shape shape, gpu::cache_options options, std::int32_t count, std::int32_t context,
             gpu::cpu::thread_team& team);
  cache_case(const cache_case&) = delete;
  cache_case& operator=(const cache_case&) = delete;

  /// One step: stages a line of every sequence, attends in all layers, finalizes. With a team of one the processor
  /// time of the calling thread, so that neighbours count less; else time by the wall.
  cache_times step();

  /// Bytes of keys and values that attention of a step reads, scales included.
  std::uint64_t bytes_read() const;

  /// Bytes of pages that such a case takes.
  static std::uint64_t bytes_needed(const attention_shape& shape, const gpu::cache_options& options, std::int32_t count,
                                    std::int32_t context);

 private:
  attention_shape shape_;
  std::int32_t context_;
  gpu::cpu::thread_team& team_;
  gpu::step step_;
  gpu::cpu::kv_store store_;
  std::vector<std::int64_t> lines_;
  std::vector<std::int32_t> accepted_;
  std::vector<float> q_, k_, out_;
};

/// Seconds of the calling thread's processor, or of the wall.
double seconds_now(bool of_thread);

}  // namespace kvern::bench
