#pragma once

#include <caf/typed_actor.hpp>

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/gate.hpp"
#include "actors/port.hpp"
#include "actors/running_turn.hpp"
#include "actors/service.hpp"
#include "actors/session_file.hpp"
#include "gpu/engine/engine.hpp"

/// All messages between the actors, one struct each, and the actors' interfaces.
namespace kvern::actors {

// ---- session and worker: plain data that could cross a wire -----------------------------------------------------

/// Session to worker. The first turn of a sequence makes the sender its owner: the worker watches it and releases the
/// sequence when it ends.
struct submit_turn {
  gpu::turn turn;
};

/// Session to worker. A turn_ended follows when the turn was still there. `keep`: tokens that the session's client has,
/// to which the sequence is cut.
struct cancel_turn {
  gpu::turn_id id = 0;
  std::int64_t keep = -1;
};

/// Session to worker, after a turn: what the sequence has beyond `length` tokens, the client never got.
struct cut_sequence {
  gpu::sequence_id id = 0;
  std::int64_t length = 0;
};

/// Session to worker: makes `to` of the first tokens of `from`, `length` of them or as many as there are. `owner` is to
/// be the owner of `to`, as with submit_turn.
struct fork_sequence {
  gpu::sequence_id from = 0;
  gpu::sequence_id to = 0;
  std::int64_t length = 0;
  caf::strong_actor_ptr owner;
};
struct sequence_forked {
  result<gpu::sequence_state> state;
};

struct rewind_sequence {
  gpu::sequence_id id = 0;
  std::int64_t length = 0;
};
struct sequence_rewound {
  result<std::int64_t> reusable;
};

struct describe_sequence {
  gpu::sequence_id id = 0;
};
struct sequence_described {
  std::optional<gpu::sequence_info> info;
};

struct estimate_reuse {
  std::string tenant;
  gpu::sequence_id id = 0;
  std::vector<token_id> prompt;
};
struct reuse_estimated {
  gpu::reuse_estimate estimate;
};

/// Session to worker: the blocks of a sequence from (table, block) on, as many as one message may hold.
struct read_blocks {
  gpu::sequence_id id = 0;
  std::int32_t table = 0;
  std::int32_t block = 0;
};
/// `table`, `block`: where to go on; `done`: there are no more.
struct blocks_read {
  result<gpu::sequence_state> state;
  std::vector<gpu::block_lines> blocks;
  std::int32_t table = 0;
  std::int32_t block = 0;
  bool done = false;
};

/// Session to worker: makes a sequence, fills it, and makes it valid. The sender becomes its owner.
struct begin_import {
  gpu::sequence_id id = 0;
  std::string tenant;
  gpu::sequence_state state;
};
struct write_blocks {
  gpu::sequence_id id = 0;
  std::vector<gpu::block_lines> blocks;
};
struct end_import {
  gpu::sequence_id id = 0;
};
struct import_went {
  result<void> well;
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

/// Front desk to worker: keep the promise when no sequence is left. Worker to courier: keep it now, behind all outputs.
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

/// Front desk to a session: do it and answer. `describe` asks the worker, `get` does not.
enum class session_verb { get, describe, cancel, end };
struct session_command {
  session_verb verb = session_verb::get;
  parcel<port<session_info>> to;
};

/// Those that may take a while hold a pass: a session in use does not make room for others.
struct rewind_session {
  std::int64_t tokens = 0;
  parcel<port<rewound_session>> to;
  std::shared_ptr<gate::pass> in_use = {};
};
struct export_session {
  parcel<port<std::string>> to;
  std::shared_ptr<gate::pass> in_use = {};
};
struct explain_prompt {
  kvern::prompt prompt;
  parcel<port<explanation>> to;
  std::shared_ptr<gate::pass> in_use = {};
};
/// `child`: a session that the front desk made for it; it has nothing yet.
struct fork_session {
  std::optional<std::int64_t> tokens;
  parcel<port<session_info>> to;
  std::shared_ptr<gate::pass> in_use = {};
  caf::strong_actor_ptr child = {};
  gpu::sequence_id child_sequence = 0;
};

/// What a session knew when it was forked.
struct forked_session {
  std::vector<token_id> tokens;
  std::int64_t committed = 0;
  session_settings settings;
  std::int64_t forgotten = 0;
};
/// A session to the one made of it.
struct take_over {
  forked_session what;
  parcel<port<session_info>> to;
};

/// Front desk to a session that has nothing yet.
struct take_file {
  parcel<session_file> file;
  parcel<port<session_info>> to;
  std::shared_ptr<gate::pass> in_use = {};
};

/// Scribe to session: a prompt compared with what the session had, and where the answer goes.
struct prompt_explained {
  result<explanation> what;
  std::vector<token_id> prompt;
  parcel<port<explanation>> to;
  std::shared_ptr<gate::pass> in_use = {};
};

/// Front desk to sessions: end what runs with `why`; `quit`: and yourself.
struct stop_turns {
  error why;
  bool quit = false;
};

/// Clients to the front desk.
struct create_session {
  std::string tenant;
  session_settings settings;
  parcel<port<session_info>> to;
};
struct import_session {
  std::string tenant;
  parcel<session_file> file;
  parcel<port<session_info>> to;
};
struct list_sessions {
  std::string tenant;
  parcel<port<std::vector<session_info>>> to;
};
/// A command to the session that has this name.
template <class T>
struct named {
  std::string tenant;
  std::string id;
  T command;
};

/// Supervisor to front desk.
struct worker_gone {
  error why;
};

/// System to front desk: stop admitting, end everything, keep the promise when the worker is idle.
struct stop_service {
  parcel<std::promise<void>> done;
};

using worker_actor =
    caf::typed_actor<caf::reacts_to<submit_turn>, caf::reacts_to<cancel_turn>, caf::reacts_to<cut_sequence>,
                     caf::replies_to<fork_sequence>::with<sequence_forked>,
                     caf::replies_to<rewind_sequence>::with<sequence_rewound>,
                     caf::replies_to<describe_sequence>::with<sequence_described>,
                     caf::replies_to<estimate_reuse>::with<reuse_estimated>,
                     caf::replies_to<read_blocks>::with<blocks_read>, caf::replies_to<begin_import>::with<import_went>,
                     caf::replies_to<write_blocks>::with<import_went>, caf::replies_to<end_import>::with<import_went>,
                     caf::reacts_to<proceed>, caf::reacts_to<tick>, caf::reacts_to<drain>>;

using session_actor =
    caf::typed_actor<caf::reacts_to<start_turn>, caf::reacts_to<cancel_request>, caf::reacts_to<turn_refused>,
                     caf::reacts_to<turn_outputs>, caf::reacts_to<prompt_ready>, caf::reacts_to<report_info>,
                     caf::reacts_to<session_command>, caf::reacts_to<rewind_session>, caf::reacts_to<export_session>,
                     caf::reacts_to<explain_prompt>, caf::reacts_to<prompt_explained>, caf::reacts_to<fork_session>,
                     caf::reacts_to<take_over>, caf::reacts_to<take_file>, caf::reacts_to<stop_turns>>;

/// Worker to courier: what one step brought, for each session that it brought something.
struct step_outputs {
  std::vector<std::pair<session_actor, turn_outputs>> of;
};

using courier_actor = caf::typed_actor<caf::reacts_to<step_outputs>, caf::reacts_to<drain>>;

using scribe_actor = caf::typed_actor<caf::reacts_to<long_job>, caf::reacts_to<proceed>>;

using front_desk_actor =
    caf::typed_actor<caf::reacts_to<start_turn>, caf::reacts_to<cancel_request>, caf::reacts_to<create_session>,
                     caf::reacts_to<import_session>, caf::reacts_to<list_sessions>,
                     caf::reacts_to<named<session_command>>, caf::reacts_to<named<rewind_session>>,
                     caf::reacts_to<named<export_session>>, caf::reacts_to<named<explain_prompt>>,
                     caf::reacts_to<named<fork_session>>, caf::reacts_to<worker_gone>, caf::reacts_to<stop_service>>;

}  // namespace kvern::actors

// None of them is serialized: sessions and worker live in one process.
#define KVERN_LOCAL_MESSAGE(name) CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kvern::actors::name)
KVERN_LOCAL_MESSAGE(submit_turn)
KVERN_LOCAL_MESSAGE(cancel_turn)
KVERN_LOCAL_MESSAGE(cut_sequence)
KVERN_LOCAL_MESSAGE(fork_sequence)
KVERN_LOCAL_MESSAGE(sequence_forked)
KVERN_LOCAL_MESSAGE(rewind_sequence)
KVERN_LOCAL_MESSAGE(sequence_rewound)
KVERN_LOCAL_MESSAGE(describe_sequence)
KVERN_LOCAL_MESSAGE(sequence_described)
KVERN_LOCAL_MESSAGE(estimate_reuse)
KVERN_LOCAL_MESSAGE(reuse_estimated)
KVERN_LOCAL_MESSAGE(read_blocks)
KVERN_LOCAL_MESSAGE(blocks_read)
KVERN_LOCAL_MESSAGE(begin_import)
KVERN_LOCAL_MESSAGE(write_blocks)
KVERN_LOCAL_MESSAGE(end_import)
KVERN_LOCAL_MESSAGE(import_went)
KVERN_LOCAL_MESSAGE(turn_refused)
KVERN_LOCAL_MESSAGE(turn_outputs)
KVERN_LOCAL_MESSAGE(proceed)
KVERN_LOCAL_MESSAGE(tick)
KVERN_LOCAL_MESSAGE(drain)
KVERN_LOCAL_MESSAGE(step_outputs)
KVERN_LOCAL_MESSAGE(long_job)
KVERN_LOCAL_MESSAGE(prompt_ready)
KVERN_LOCAL_MESSAGE(start_turn)
KVERN_LOCAL_MESSAGE(cancel_request)
KVERN_LOCAL_MESSAGE(report_info)
KVERN_LOCAL_MESSAGE(session_command)
KVERN_LOCAL_MESSAGE(rewind_session)
KVERN_LOCAL_MESSAGE(export_session)
KVERN_LOCAL_MESSAGE(explain_prompt)
KVERN_LOCAL_MESSAGE(prompt_explained)
KVERN_LOCAL_MESSAGE(fork_session)
KVERN_LOCAL_MESSAGE(take_over)
KVERN_LOCAL_MESSAGE(take_file)
KVERN_LOCAL_MESSAGE(stop_turns)
KVERN_LOCAL_MESSAGE(create_session)
KVERN_LOCAL_MESSAGE(list_sessions)
KVERN_LOCAL_MESSAGE(import_session)
KVERN_LOCAL_MESSAGE(named<kvern::actors::session_command>)
KVERN_LOCAL_MESSAGE(named<kvern::actors::rewind_session>)
KVERN_LOCAL_MESSAGE(named<kvern::actors::export_session>)
KVERN_LOCAL_MESSAGE(named<kvern::actors::explain_prompt>)
KVERN_LOCAL_MESSAGE(named<kvern::actors::fork_session>)
KVERN_LOCAL_MESSAGE(worker_gone)
KVERN_LOCAL_MESSAGE(stop_service)
#undef KVERN_LOCAL_MESSAGE
