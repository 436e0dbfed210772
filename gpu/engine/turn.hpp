#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/error.hpp"
#include "base/token.hpp"
#include "model/sampler/sampling_params.hpp"

namespace kvern::gpu {

using sequence_id = std::uint64_t;
using turn_id = std::uint64_t;

/// What happens when a sequence's context is full.
enum class overflow_policy {
  error,   ///< a prompt whose answer cannot fit is refused before any work
  stop,    ///< the answer ends with finish_reason::length
  rotate,  ///< the first lines stay, the oldest after them are forgotten, positions go on
};

/// Whether tokens are guessed from what a sequence has said before, and several computed in one step where the guess is
/// right. No answer depends on it.
enum class prompt_lookup_mode {
  off,
  automatic,  ///< while it is measured to help
  on,         ///< whenever there is something to go by
};

/// One request to a sequence: keep its first `keep` tokens, append, generate. Plain data that could cross a wire.
struct turn {
  turn_id id = 0;
  sequence_id sequence = 0;
  std::string tenant;
  std::int64_t keep = 0;         ///< tokens of the sequence that stay
  std::vector<token_id> prompt;  ///< the whole prompt, the kept tokens included
  sampling_params sampling;
  std::int64_t max_tokens = -1;  ///< -1: until the context is full
  bool ignore_eos = false;
  std::int32_t logprobs = -1;  ///< alternatives wanted, 0 to 20; -1: no log-probabilities

  overflow_policy overflow = overflow_policy::error;
  /// With `rotate`: lines that stay, rounded up to whole pages.
  std::int64_t rotate_keep = 0;
  /// The last tokens of the prompt to keep out of the cache: they and the answer leave no line behind.
  std::int64_t exclude_tail = 0;
  std::optional<bool> prompt_lookup;  ///< on or off; absent: as the engine's options say
};

enum class finish_reason { stop, length, cancelled, failed };

/// The turn left the queue. `reused` prompt tokens had lines already: what the worker really kept, which may be less
/// than `turn::keep` when pages were evicted meanwhile. Sent once, before the first progress.
struct turn_started {
  std::int64_t reused = 0;
  std::int64_t shared = 0;  ///< of them, from pages that other sequences of the cache domain computed
};

/// Prompt tokens processed, the reused ones included; after each step that computed some.
struct turn_progress {
  std::int64_t processed = 0;
  std::int64_t total = 0;
};

/// One sampled token. An end-of-generation token is sent too, marked, and ends the turn unless `ignore_eos`.
struct turn_token {
  token_id token = 0;
  bool end_of_generation = false;
  token_logprob logprob;  ///< filled when asked for
  bool guessed = false;   ///< by prompt lookup, before it was chosen
};

/// The last output of a turn. `committed`: tokens of the sequence whose lines are in pages.
struct turn_ended {
  finish_reason reason = finish_reason::stop;
  error why;  ///< for finish_reason::failed
  std::int64_t committed = 0;
  bool context_full = false;     ///< the answer ended because the context did
  std::int64_t forgotten = 0;    ///< lines that the sequence's rotation has dropped so far
  std::int64_t rotate_keep = 0;  ///< lines that stay, when it rotates
  std::int64_t drafted = 0;      ///< tokens guessed by prompt lookup
  std::int64_t accepted = 0;     ///< of them, right; not all may reach a client that wants no more
  double queued_ms = 0;
  double prompt_ms = 0;    ///< from leaving the queue to the first token
  double generate_ms = 0;  ///< from the first token to the last
};

struct turn_output {
  turn_id id = 0;
  std::variant<turn_started, turn_progress, turn_token, turn_ended> what;
};

}  // namespace kvern::gpu
