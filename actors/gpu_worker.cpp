#include "actors/gpu_worker.hpp"

#include <exception>
#include <utility>
#include <variant>

namespace kvern::actors {

gpu_worker::gpu_worker(caf::actor_config& config, parcel<std::unique_ptr<gpu::engine>> engine,
                       std::shared_ptr<status_board> board, parcel<gate::pass> pass)
    : worker_actor::base(config), engine_(engine.take()), board_(std::move(board)), pass_(pass.take()) {
  set_down_handler([this](caf::down_msg& down) { forget(down.source.id()); });
  set_exception_handler([this](std::exception_ptr& thrown) -> caf::error {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& e) {
      board_->worker_failed(e.what());
    } catch (...) {
      board_->worker_failed("unknown exception");
    }
    return caf::sec::runtime_error;
  });
}

gpu_worker::behavior_type gpu_worker::make_behavior() {
  send(this, tick{});
  return {
      [this](submit_turn& m) { submit(m.turn); },
      [this](const cancel_turn& m) {
        engine_->cancel(m.id);
        wake();
      },
      [this](const proceed&) {
        proceeding_ = false;
        step();
      },
      [this](const tick&) {
        board_->beat();
        delayed_send(this, pulse, tick{});
      },
      [this](drain& m) {
        waiting_.push_back(m.done.take());
        check_drained();
      },
  };
}

void gpu_worker::on_exit() {
  // The engine's memory goes on the worker's thread, not on that of whoever drops the last handle.
  engine_.reset();
  sequences_.clear();
  waiting_.clear();
  pass_.reset();
}

void gpu_worker::submit(gpu::turn& turn) {
  const auto owner = caf::actor_cast<session_actor>(current_sender());
  if (!owner) return;
  const auto id = turn.id;
  const auto sequence = turn.sequence;
  if (const auto taken = engine_->submit(std::move(turn)); !taken) {
    send(owner, turn_refused{id, taken.error()});
  } else {
    turns_.emplace(id, sequence);
    if (sequences_.try_emplace(sequence, owned{owner, {}}).second) {
      owners_.emplace(owner.id(), sequence);
      monitor(owner);
    }
  }
  board_->publish(engine_->stats());
  wake();
}

void gpu_worker::step() {
  outputs_.clear();
  engine_->step(outputs_);
  for (auto& output : outputs_) {
    const auto turn = turns_.find(output.id);
    if (turn == turns_.end()) continue;
    const auto sequence = turn->second;
    if (std::holds_alternative<gpu::turn_ended>(output.what)) turns_.erase(turn);
    const auto found = sequences_.find(sequence);
    if (found == sequences_.end()) continue;
    if (found->second.outputs.empty()) touched_.push_back(sequence);
    found->second.outputs.push_back(std::move(output));
  }
  for (const auto sequence : touched_) {
    auto& [owner, outputs] = sequences_.find(sequence)->second;
    send(owner, turn_outputs{std::exchange(outputs, {})});
  }
  touched_.clear();
  board_->beat();
  board_->publish(engine_->stats());
  check_drained();
  wake();
}

void gpu_worker::wake() {
  // At the end of the mailbox: everything that came in during a step is taken before the next.
  if (proceeding_ || engine_->idle()) return;
  proceeding_ = true;
  send(this, proceed{});
}

void gpu_worker::forget(caf::actor_id owner) {
  const auto found = owners_.find(owner);
  if (found == owners_.end()) return;
  const auto sequence = found->second;
  owners_.erase(found);
  engine_->release(sequence);
  sequences_.erase(sequence);
  std::erase_if(turns_, [&](const auto& turn) { return turn.second == sequence; });
  board_->publish(engine_->stats());
  check_drained();
  wake();
}

void gpu_worker::check_drained() {
  if (!sequences_.empty() || !engine_->idle()) return;
  for (auto& promise : waiting_) promise.set_value();
  waiting_.clear();
}

}  // namespace kvern::actors
