#pragma once

#include <caf/typed_actor.hpp>

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/port.hpp"
#include "actors/running_turn.hpp"
#include "actors/service.hpp"
#include "gpu/engine/turn.hpp"

/// All messages between the actors, one struct each, and the actors' interfaces.
namespace kvern::actors {

// ---- session and worker: plain data that could cross a wire -----------------------------------------------------

/// Session to worker. The first turn of a sequence makes the sender its owner: the worker watches it and releases the
/// sequence when it ends.
struct submit_turn {
  gpu::turn turn;
};

/// Session to worker. A turn_ended follows when the turn was still there.
struct cancel_turn {
  gpu::turn_id id = 0;
};

/// Worker to session: the turn was not taken.
struct turn_refused {
  gpu::turn_id id = 0;
  error why;
};

/// Worker to session: what one step brought for its turn.
struct turn_outputs {
  std::vector<gpu::turn_output> outputs;
};

// ---- inside one process -----------------------------------------------------------------------------------------

/// Worker and scribe to themselves: go on, after what has come in meanwhile.
struct proceed {};

/// Worker to itself: time to show life.
struct tick {};

/// Front desk to worker: keep the promise when no sequence is left.
struct drain {
  parcel<std::promise<void>> done;
};

/// To the scribe: work too long for the pool. `run` gets an error when the tenant has too much of it waiting.
struct long_job {
  std::string tenant;
  parcel<std::move_only_function<void(std::optional<error>)>> run;
};

/// Scribe to session: the prompt of the request with this number.
struct prompt_ready {
  std::uint64_t request = 0;
  result<std::vector<token_id>> tokens;
};

/// To a session, from the front desk; and to the front desk, from a client.
struct start_turn {
  parcel<pending_request> request;
};
struct cancel_request {
  std::shared_ptr<ticket> receipt;
};

/// Answers of several sessions, put together: its destructor gives them, so that a session that has ended meanwhile
/// only lacks.
class info_collector;
struct report_info {
  std::shared_ptr<info_collector> to;
};

enum class session_verb { get, cancel, end };
/// Front desk to a session: do it and answer.
struct session_command {
  session_verb verb = session_verb::get;
  parcel<port<session_info>> to;
};

/// Front desk to sessions: end what runs with `why`; `quit`: and yourself.
struct stop_turns {
  error why;
  bool quit = false;
};

/// Clients to the front desk.
struct create_session {
  std::string tenant;
  parcel<port<session_info>> to;
};
struct list_sessions {
  std::string tenant;
  parcel<port<std::vector<session_info>>> to;
};
struct named_session_command {
  std::string tenant;
  std::string id;
  session_command command;
};

/// Supervisor to front desk.
struct worker_gone {
  error why;
};

/// System to front desk: stop admitting, end everything, keep the promise when the worker is idle.
struct stop_service {
  parcel<std::promise<void>> done;
};

using worker_actor = caf::typed_actor<caf::reacts_to<submit_turn>, caf::reacts_to<cancel_turn>, caf::reacts_to<proceed>,
                                      caf::reacts_to<tick>, caf::reacts_to<drain>>;

using session_actor =
    caf::typed_actor<caf::reacts_to<start_turn>, caf::reacts_to<cancel_request>, caf::reacts_to<turn_refused>,
                     caf::reacts_to<turn_outputs>, caf::reacts_to<prompt_ready>, caf::reacts_to<report_info>,
                     caf::reacts_to<session_command>, caf::reacts_to<stop_turns>>;

using scribe_actor = caf::typed_actor<caf::reacts_to<long_job>, caf::reacts_to<proceed>>;

using front_desk_actor =
    caf::typed_actor<caf::reacts_to<start_turn>, caf::reacts_to<cancel_request>, caf::reacts_to<create_session>,
                     caf::reacts_to<list_sessions>, caf::reacts_to<named_session_command>, caf::reacts_to<worker_gone>,
                     caf::reacts_to<stop_service>>;

}  // namespace kvern::actors

// None of them is serialized: sessions and worker live in one process.
#define KVERN_LOCAL_MESSAGE(name) CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kvern::actors::name)
KVERN_LOCAL_MESSAGE(submit_turn)
KVERN_LOCAL_MESSAGE(cancel_turn)
KVERN_LOCAL_MESSAGE(turn_refused)
KVERN_LOCAL_MESSAGE(turn_outputs)
KVERN_LOCAL_MESSAGE(proceed)
KVERN_LOCAL_MESSAGE(tick)
KVERN_LOCAL_MESSAGE(drain)
KVERN_LOCAL_MESSAGE(long_job)
KVERN_LOCAL_MESSAGE(prompt_ready)
KVERN_LOCAL_MESSAGE(start_turn)
KVERN_LOCAL_MESSAGE(cancel_request)
KVERN_LOCAL_MESSAGE(report_info)
KVERN_LOCAL_MESSAGE(session_command)
KVERN_LOCAL_MESSAGE(stop_turns)
KVERN_LOCAL_MESSAGE(create_session)
KVERN_LOCAL_MESSAGE(list_sessions)
KVERN_LOCAL_MESSAGE(named_session_command)
KVERN_LOCAL_MESSAGE(worker_gone)
KVERN_LOCAL_MESSAGE(stop_service)
#undef KVERN_LOCAL_MESSAGE
