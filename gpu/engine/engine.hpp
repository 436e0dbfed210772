#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "gpu/backend.hpp"
#include "gpu/cache/cache_options.hpp"
#include "gpu/engine/turn.hpp"

namespace kvern::gpu {

struct engine_options {
  cache_layout layout = cache_layout::paged;
  /// What decides the bits of a line beside its prefix: model content, adapter, type of lines, settings. Part of every
  /// cache domain.
  std::string fingerprint = {};
  std::int32_t max_running = 64;             ///< turns in a step at once
  std::int32_t max_queued_per_tenant = 256;  ///< further turns are refused with `queue_full`
  double max_step_ms = 50;                   ///< a step with decode rows takes prompt rows up to this long, by estimate
  double max_prompt_step_ms = 1000;          ///< a step of prompt rows alone takes up to this long, by estimate
  std::int32_t max_chunk = 512;              ///< prompt rows in one step, at most
  prompt_lookup_mode prompt_lookup = prompt_lookup_mode::automatic;
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
  std::uint64_t drafted_tokens = 0;   ///< guessed by prompt lookup
  std::uint64_t accepted_tokens = 0;  ///< of them, right
  std::uint64_t turns = 0;
  std::uint64_t failed_turns = 0;
  std::uint64_t preempted_turns = 0;
  std::uint64_t evicted_pages = 0;
  std::uint64_t copied_pages = 0;   ///< copies on write
  std::uint64_t shared_tokens = 0;  ///< of reused_tokens, from pages of other sequences
  double step_seconds = 0;          ///< of the worker, in steps that computed rows
  double backend_seconds = 0;       ///< of them, in the backend: forward and finalize
  double between_seconds = 0;       ///< from the end of a step to the begin of the next, while turns were there
  std::int32_t running = 0;
  std::int32_t queued = 0;
  std::int32_t sequences = 0;
  std::int32_t pages_used = 0;    ///< hold lines of a sequence, or lines that a later prompt may reuse
  std::int32_t pages_shared = 0;  ///< in more than one sequence
  std::int32_t pages_total = 0;
};

/// What the cache holds of a sequence. Pages count in all tables.
struct sequence_info {
  std::int64_t tokens = 0;
  std::int64_t committed = 0;  ///< its lines that are there: computed, and neither dropped nor evicted since
  std::int64_t reusable = 0;
  std::int64_t forgotten = 0;  ///< by rotation
  std::int32_t pages = 0;
  std::int32_t shared_pages = 0;  ///< of them, also in another sequence
  std::uint64_t bytes = 0;        ///< of its pages
};

/// What a prompt would find.
struct reuse_estimate {
  std::int64_t reused = 0;
  std::int64_t shared = 0;  ///< of them, from pages of other sequences
};

/// The lines of one page, as backend::read gives them.
struct block_lines {
  std::int32_t table = 0;
  std::int32_t block = 0;
  std::int32_t lines = 0;
  std::vector<std::byte> bytes;
};

/// A sequence without its lines.
struct sequence_state {
  std::vector<token_id> tokens;
  std::int32_t committed = 0;
  rotation rotate = {};
};

/// Batches the turns of all sequences into steps: schedules, runs the backend, samples, commits. With prompt lookup a
/// step may bring a turn several tokens, the same ones that so many steps would. Owns sequences and page tables; knows
/// no actor and no socket. Not thread-safe: the GPU worker calls it from its thread.
class engine {
 public:
  /// Errors: `invalid_options`, naming the one that is out of range, or a backend without pages, rows or context.
  static result<std::unique_ptr<engine>> create(std::unique_ptr<backend> b, engine_options options);
  virtual ~engine() = default;

  /// Queues a turn. A sequence comes to be with its first turn, belongs to that turn's tenant and has one turn at a
  /// time. Every turn that is accepted ends with exactly one `turn_ended`. Errors: `queue_full`,
  /// `context_length_exceeded` (see overflow_policy), `invalid_request` (empty prompt, token out of range, sampling
  /// parameters, a turn id in use, a sequence of another tenant), `busy` (the sequence has a turn).
  virtual result<void> submit(turn t) = 0;

  /// Ends a queued or running turn; its `turn_ended` comes with the next step(). Nothing of the step in flight is
  /// committed for it, and its sequence is cut to `keep` tokens (-1: all that are committed). Unknown ids are ignored.
  virtual void cancel(turn_id id, std::int64_t keep = -1) = 0;

  /// Makes the new sequence `to`, of the same tenant, with the first `length` tokens of `from` and their lines. Copies
  /// no page: both go on independently, and whoever first writes into a shared page gets a copy. `from` may be running.
  /// Errors: `not_found`, `invalid_request` (`to` exists, `length` out of range).
  virtual result<void> fork(sequence_id from, sequence_id to, std::int64_t length) = 0;

  /// Cuts a sequence to `length` tokens. Returns how many of them need not be computed again by a prompt that continues
  /// them. Errors: `not_found`, `busy` (it has a turn), `invalid_request` (longer than it is).
  virtual result<std::int64_t> rewind(sequence_id id, std::int64_t length) = 0;

  /// The same without the answer, which takes looking for. Does nothing to a sequence that is no longer, is unknown,
  /// has a turn or is being imported.
  virtual void cut(sequence_id id, std::int64_t length) = 0;

  /// Tokens that a sequence has; 0 when there is no such.
  virtual std::int64_t tokens_of(sequence_id id) const = 0;
  virtual std::optional<sequence_info> describe(sequence_id id) const = 0;

  /// What `prompt` would find now in the sequence (which need not exist) and in its tenant's cache.
  virtual reuse_estimate estimate(const std::string& tenant, sequence_id id,
                                  std::span<const token_id> prompt) const = 0;

  /// For export: a sequence without its lines; then page by page, every block and table that is there. Errors:
  /// `not_found`, also of a page that is not there.
  virtual result<sequence_state> state_of(sequence_id id) const = 0;
  virtual result<block_lines> read_block(sequence_id id, std::int32_t table, std::int32_t block) const = 0;

  /// For import: makes a sequence without lines, takes its pages one by one, and makes them valid. A sequence whose
  /// import has not ended cannot have a turn; release it to give up. Errors: `not_found`, `invalid_request`,
  /// `session_file_mismatch` (another context), `out_of_pages`, the backend's (then the sequence is released).
  virtual result<void> begin_import(sequence_id id, const std::string& tenant, sequence_state state) = 0;
  virtual result<void> import_block(sequence_id id, const block_lines& lines) = 0;
  virtual result<void> end_import(sequence_id id) = 0;

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
