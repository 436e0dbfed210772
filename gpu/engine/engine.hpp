#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "gpu/backend.hpp"
#include "gpu/engine/turn.hpp"

namespace kvern::gpu {

struct engine_options {
  std::int32_t max_running = 64;             ///< turns in a step at once
  std::int32_t max_queued_per_tenant = 256;  ///< further turns are refused with `queue_full`
  double max_step_ms = 50;                   ///< a step with decode rows takes prompt rows up to this long, by estimate
  double max_prompt_step_ms = 1000;          ///< a step of prompt rows alone takes up to this long, by estimate
  std::int32_t max_chunk = 512;              ///< prompt rows in one step, at most
  std::function<bool(token_id)> is_end = {};   ///< end-of-generation tokens
  std::map<std::string, double> weights = {};  ///< of tenants in scheduling, above 0; absent: 1
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

/// Counters since start and gauges of now.
struct engine_stats {
  std::uint64_t steps = 0;
  std::uint64_t prompt_tokens = 0;  ///< computed
  std::uint64_t reused_tokens = 0;  ///< of prompts, not computed
  std::uint64_t generated_tokens = 0;
  std::uint64_t turns = 0;
  std::uint64_t failed_turns = 0;
  std::uint64_t preempted_turns = 0;
  std::uint64_t evicted_pages = 0;
  double step_seconds = 0;
  std::int32_t running = 0;
  std::int32_t queued = 0;
  std::int32_t sequences = 0;
  std::int32_t pages_used = 0;
  std::int32_t pages_total = 0;
};

/// Batches the turns of all sequences into steps: schedules, runs the backend, samples, commits. Owns sequences and
/// page tables; knows no actor and no socket. Not thread-safe: the GPU worker calls it from its thread.
class engine {
 public:
  /// Errors: `invalid_options`, naming the one that is out of range, or a backend without pages, rows or context.
  static result<std::unique_ptr<engine>> create(std::unique_ptr<backend> b, engine_options options);
  virtual ~engine() = default;

  /// Queues a turn. A sequence comes to be with its first turn, belongs to that turn's tenant and has one turn at a
  /// time. Every turn that is accepted ends with exactly one `turn_ended`. Errors: `queue_full`,
  /// `context_length_exceeded`, `invalid_request` (empty prompt, token out of range, sampling parameters, a turn id in
  /// use, a sequence of another tenant), `busy` (the sequence has a turn).
  virtual result<void> submit(turn t) = 0;

  /// Ends a queued or running turn; its `turn_ended` comes with the next step(). Nothing of the step in flight is
  /// committed for it. Unknown ids are ignored.
  virtual void cancel(turn_id id) = 0;

  /// Forgets a sequence and frees its pages; its turn, if it has one, is cancelled. Unknown ids are ignored.
  virtual void release(sequence_id id) = 0;

  /// Whether step() has nothing to do.
  virtual bool idle() const = 0;

  /// One step: one forward pass over what the scheduler chose, sampling, finalize. Appends to `outputs`.
  virtual void step(std::vector<turn_output>& outputs) = 0;

  virtual engine_stats stats() const = 0;
  virtual const backend_info& info() const = 0;
};

}  // namespace kvern::gpu
