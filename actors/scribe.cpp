#include "actors/scribe.hpp"

#include <fmt/core.h>

#include <utility>

namespace kvern::actors {

scribe::scribe(caf::actor_config& config, parcel<gate::pass> pass) : scribe_actor::base(config), pass_(pass.take()) {}

scribe::behavior_type scribe::make_behavior() {
  return {
      [this](long_job& m) {
        auto run = m.run.take();
        const bool idle = queue_.empty();
        if (!queue_.push(m.tenant, run)) {
          run(error{"queue_full",
                    fmt::format("{} long prompts are waiting already; try again later.", most_per_tenant)});
          return;
        }
        if (idle) send(this, proceed{});
      },
      [this](const proceed&) {
        auto run = queue_.pop();
        run({});
        if (!queue_.empty()) send(this, proceed{});
      },
  };
}

void scribe::on_exit() {
  queue_ = fair_queue<job>(most_per_tenant);
  pass_.reset();
}

}  // namespace kvern::actors
