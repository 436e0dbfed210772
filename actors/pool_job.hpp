#pragma once

#include <caf/event_based_actor.hpp>

#include <functional>
#include <optional>
#include <utility>

#include "actors/gate.hpp"
#include "actors/port.hpp"

namespace kvern::actors {

/// Runs one short job in the pool and ends.
class pool_job : public caf::event_based_actor {
 public:
  using job = std::move_only_function<void(std::optional<error>)>;

  pool_job(caf::actor_config& config, parcel<job> run, parcel<gate::pass> pass)
      : caf::event_based_actor(config), run_(std::move(run)), pass_(pass.take()) {}

  caf::behavior make_behavior() override {
    run_.take()({});
    return {};
  }

  void on_exit() override { pass_.reset(); }

 private:
  parcel<job> run_;
  gate::pass pass_;
};

}  // namespace kvern::actors
