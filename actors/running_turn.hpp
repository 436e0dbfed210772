#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/event_stream.hpp"
#include "actors/gate.hpp"
#include "actors/prefix_validation.hpp"
#include "actors/service.hpp"
#include "actors/session_history.hpp"
#include "actors/turn_text.hpp"
#include "gpu/engine/turn.hpp"

namespace kvern::actors {

/// One request on its way, shared by the client's handle and the session that serves it.
struct ticket {
  std::atomic<bool> cancelled = false;
  gpu::sequence_id session = 0;  ///< the front desk's own: who serves it
};

/// A request with the way back to its client. Movable.
struct pending_request {
  std::string tenant;
  generation_request request;
  event_stream events;
  std::shared_ptr<ticket> receipt;
  gate::pass in_use = {};  ///< while it is held, its session does not make room for others
};

/// One turn of a session, from the request to its last event: turns what the worker says into events, and keeps the
/// history equal to what the client has. Knows no actor; not thread-safe.
class running_turn {
 public:
  /// Checks what can be checked without the model. Errors: `invalid_request`; `request` then still has its events.
  static result<std::unique_ptr<running_turn>> create(pending_request& request,
                                                      std::shared_ptr<const tokenizer> tokens);

  /// The turn to submit, with the prompt's tokens validated against `history`, which stays as it is. Where neither the
  /// request nor the context ends it, it generates `context` tokens at most. Errors: `invalid_request` (keep without
  /// rotate).
  result<gpu::turn> plan(std::vector<token_id> prompt, const session_history& history, gpu::turn_id id,
                         gpu::sequence_id sequence, std::int64_t context);

  enum class verdict {
    goes_on,
    cancel,  ///< the worker should be told to cancel; what it says until the turn's end is still to be taken
    over,    ///< the last event was sent
  };

  /// Takes one output of the worker. `now`: Unix seconds.
  verdict take(gpu::turn_output& output, session_history& history, std::int64_t now);

  /// The client wants no more: nothing is given out until the worker says the end. Whether the worker is still to be
  /// told: to cut the sequence to what `history` has now.
  bool cancel(const session_history& history);

  /// Tokens that the worker's sequence has at most, by what it said; 0 before it started.
  std::int64_t told() const { return told_; }

  /// These send the last event, without the worker's word. A turn that met a stop string ends well in any case.
  void fail(error why);
  void cancelled();

  gpu::turn_id id() const { return id_; }
  const pending_request& request() const { return request_; }
  /// The prompt as the client sent it, to be tokenized; it is gone afterwards.
  prompt take_prompt() { return std::move(request_.request.prompt); }

 private:
  running_turn(pending_request request, stop_matcher stops, std::shared_ptr<const tokenizer> tokens);

  verdict on(gpu::turn_started& started, session_history& history);
  verdict on(gpu::turn_progress& progress, session_history& history);
  verdict on(gpu::turn_token& token, session_history& history);
  verdict on(gpu::turn_ended& ended, session_history& history);
  bool deliver(text_event event, session_history& history);
  void end(end_event event);

  pending_request request_;
  turn_text text_;
  gpu::turn_id id_ = 0;
  std::vector<token_id> prompt_;  ///< until the turn started
  std::int64_t prompt_tokens_ = 0;
  prefix_match match_;
  std::int64_t completion_tokens_ = 0;
  std::int64_t accepted_tokens_ = 0;  ///< of them, guessed
  std::int64_t told_ = 0;
  std::int64_t tail_ = 0;  ///< last tokens of the prompt that the session does not keep, nor the answer
  bool keeps_answer_ = true;
  bool cancelled_ = false;  ///< by its client or by a stop string; the worker knows
  std::int64_t cut_ = 0;    ///< when cancelled: to so many tokens the worker cut the sequence
};

}  // namespace kvern::actors
