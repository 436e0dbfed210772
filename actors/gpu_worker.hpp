#pragma once

#include <caf/typed_event_based_actor.hpp>

#include <chrono>
#include <memory>
#include <unordered_map>
#include <vector>

#include "actors/gate.hpp"
#include "actors/messages.hpp"
#include "actors/status_board.hpp"
#include "gpu/engine/engine.hpp"

namespace kvern::actors {

/// Owns the engine on a thread of its own (spawn it detached): takes what came in, runs a step, sends what it brought,
/// for as long as there is work; sleeps otherwise. Whatever the engine throws ends it; then its supervisor acts.
/// Outputs go through the courier; the answers to questions do not, and may tell of a step whose outputs come later.
class gpu_worker : public worker_actor::base {
 public:
  gpu_worker(caf::actor_config& config, parcel<std::unique_ptr<gpu::engine>> engine, courier_actor courier,
             std::shared_ptr<status_board> board, parcel<gate::pass> pass);

  /// How often an idle worker shows life.
  static constexpr std::chrono::milliseconds pulse{200};

  behavior_type make_behavior() override;
  void on_exit() override;

 private:
  /// A sequence, the session that owns it, and what the current step brought for it.
  struct owned {
    session_actor owner;
    std::vector<gpu::turn_output> outputs;
  };

  /// Bytes of pages that one message takes or brings, about: so long the worker is held.
  static constexpr std::size_t message_bytes = std::size_t{4} << 20;

  void submit(gpu::turn& turn);
  void own(gpu::sequence_id sequence, const caf::strong_actor_ptr& owner);
  void changed();
  sequence_forked fork(const fork_sequence& m);
  blocks_read read(const read_blocks& m) const;
  import_went begin(begin_import& m);
  import_went write(const write_blocks& m);
  void step();
  void wake();
  void forget(caf::actor_id owner);
  void check_drained();

  std::unique_ptr<gpu::engine> engine_;
  courier_actor courier_;
  std::shared_ptr<status_board> board_;
  gate::pass pass_;
  std::unordered_map<gpu::sequence_id, owned> sequences_;
  std::unordered_map<caf::actor_id, gpu::sequence_id> owners_;
  std::unordered_map<gpu::turn_id, gpu::sequence_id> turns_;
  std::vector<gpu::turn_output> outputs_;    ///< of one step
  std::vector<gpu::sequence_id> touched_;    ///< by one step
  std::vector<std::promise<void>> waiting_;  ///< for the last sequence to go
  bool proceeding_ = false;                  ///< a `proceed` is in the mailbox
};

}  // namespace kvern::actors
