#pragma once

#include <caf/typed_event_based_actor.hpp>

#include <cstddef>
#include <functional>
#include <optional>

#include "actors/fair_queue.hpp"
#include "actors/gate.hpp"
#include "actors/messages.hpp"

namespace kvern::actors {

/// Does what would hold up the pool, such as tokenizing megabytes: on a thread of its own (spawn it detached), one job
/// at a time, tenants in turn.
class scribe : public scribe_actor::base {
 public:
  scribe(caf::actor_config& config, parcel<gate::pass> pass);

  static constexpr std::size_t most_per_tenant = 64;  ///< further jobs are told `queue_full`

  behavior_type make_behavior() override;
  void on_exit() override;

 private:
  using job = std::move_only_function<void(std::optional<error>)>;

  gate::pass pass_;
  fair_queue<job> queue_{most_per_tenant};
};

}  // namespace kvern::actors
