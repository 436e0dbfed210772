#pragma once

#include <caf/event_based_actor.hpp>

#include <memory>

#include "actors/gate.hpp"
#include "actors/messages.hpp"
#include "actors/status_board.hpp"

namespace kvern::actors {

/// Watches worker, courier, scribe and front desk. None of them ends by itself while the service runs: when one does,
/// the board says so, running generations end with `worker_failed` and new ones are refused with it.
class supervisor : public caf::event_based_actor {
 public:
  supervisor(caf::actor_config& config, worker_actor worker, courier_actor courier, scribe_actor scribe,
             front_desk_actor desk, std::shared_ptr<status_board> board, parcel<gate::pass> pass);

  caf::behavior make_behavior() override;
  void on_exit() override;

 private:
  void lost(const caf::down_msg& down);

  worker_actor worker_;
  courier_actor courier_;
  scribe_actor scribe_;
  front_desk_actor desk_;
  std::shared_ptr<status_board> board_;
  gate::pass pass_;
};

}  // namespace kvern::actors
