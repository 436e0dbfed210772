#pragma once

#include <caf/typed_event_based_actor.hpp>

#include <memory>

#include "actors/gate.hpp"
#include "actors/messages.hpp"
#include "actors/status_board.hpp"

namespace kvern::actors {

/// Hands outputs to their sessions, in order: to wake them takes longer than the worker, which has a step to begin, can
/// wait. What it throws ends it, and the board tells why; then its supervisor acts as on the worker's end.
class courier : public courier_actor::base {
 public:
  courier(caf::actor_config& config, const std::shared_ptr<status_board>& board, parcel<gate::pass> pass);

  behavior_type make_behavior() override;
  void on_exit() override;

 private:
  gate::pass pass_;
};

}  // namespace kvern::actors
