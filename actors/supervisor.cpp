#include "actors/supervisor.hpp"

#include <utility>

#include "actors/errors.hpp"

namespace kvern::actors {

supervisor::supervisor(caf::actor_config& config, worker_actor worker, courier_actor courier, scribe_actor scribe,
                       front_desk_actor desk, std::shared_ptr<status_board> board, parcel<gate::pass> pass)
    : caf::event_based_actor(config),
      worker_(std::move(worker)),
      courier_(std::move(courier)),
      scribe_(std::move(scribe)),
      desk_(std::move(desk)),
      board_(std::move(board)),
      pass_(pass.take()) {
  set_down_handler([this](caf::down_msg& down) { lost(down); });
  set_default_handler(caf::drop);
}

caf::behavior supervisor::make_behavior() {
  monitor(worker_);
  monitor(courier_);
  monitor(scribe_);
  monitor(desk_);
  // An actor without handlers ends; this one lives by what it watches.
  return {[](const tick&) {}};
}

void supervisor::on_exit() {
  worker_ = nullptr;
  courier_ = nullptr;
  scribe_ = nullptr;
  desk_ = nullptr;
  pass_.reset();
}

void supervisor::lost(const caf::down_msg& down) {
  const auto* part = "the scribe";
  if (down.source == worker_.address()) part = "the worker";
  if (down.source == courier_.address()) part = "the courier";
  if (down.source == desk_.address()) part = "the front desk";
  // Where the worker could say itself why, that reason stays.
  board_->worker_failed(std::string(part) + " ended");
  send(desk_, worker_gone{worker_failed(board_->failure())});
}

}  // namespace kvern::actors
