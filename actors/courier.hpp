#pragma once

#include <caf/typed_event_based_actor.hpp>

#include <utility>
#include <vector>

#include "actors/messages.hpp"

namespace kvern::actors {

/// What one step brought, for each session that it brought something.
struct step_outputs {
  std::vector<std::pair<session_actor, turn_outputs>> of;
};

/// Hands outputs to their sessions, in order: to wake them takes longer than the worker, which has a step to begin, can
/// wait. Ends when the worker lets go of it.
using courier_actor = caf::typed_actor<caf::reacts_to<step_outputs>>;

}  // namespace kvern::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(kvern::actors::step_outputs)
