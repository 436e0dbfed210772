#include "actors/courier.hpp"

#include <exception>
#include <utility>

namespace kvern::actors {

courier::courier(caf::actor_config& config, const std::shared_ptr<status_board>& board, parcel<gate::pass> pass)
    : courier_actor::base(config), pass_(pass.take()) {
  set_exception_handler([board](std::exception_ptr& thrown) -> caf::error {
    board->worker_failed(thrown);
    return caf::sec::runtime_error;
  });
}

courier::behavior_type courier::make_behavior() {
  return {
      [this](step_outputs& m) {
        for (auto& [session, outputs] : m.of) send(session, std::move(outputs));
      },
      [](drain& m) { m.done.take().set_value(); },
  };
}

void courier::on_exit() { pass_.reset(); }

}  // namespace kvern::actors
