#include "actors/gpu_worker.hpp"

#include <algorithm>
#include <exception>
#include <utility>
#include <variant>

namespace kvern::actors {

gpu_worker::gpu_worker(caf::actor_config& config, parcel<std::unique_ptr<gpu::engine>> engine, courier_actor courier,
                       std::shared_ptr<status_board> board, parcel<gate::pass> pass)
    : worker_actor::base(config),
      engine_(engine.take()),
      courier_(std::move(courier)),
      board_(std::move(board)),
      pass_(pass.take()) {
  set_down_handler([this](caf::down_msg& down) { forget(down.source.id()); });
  set_exception_handler([this](std::exception_ptr& thrown) -> caf::error {
    board_->worker_failed(thrown);
    return caf::sec::runtime_error;
  });
}

gpu_worker::behavior_type gpu_worker::make_behavior() {
  send(this, tick{});
  return {
      [this](submit_turn& m) { submit(m.turn); },
      [this](const cancel_turn& m) {
        engine_->cancel(m.id, m.keep);
        wake();
      },
      [this](const cut_sequence& m) {
        // An answer's last tokens may not be there at all, or the next turn may have come.
        engine_->cut(m.id, m.length);
        changed();
      },
      [this](const fork_sequence& m) { return fork(m); },
      [this](const rewind_sequence& m) {
        sequence_rewound out{engine_->rewind(m.id, std::min(m.length, engine_->tokens_of(m.id)))};
        changed();
        return out;
      },
      [this](const describe_sequence& m) { return sequence_described{engine_->describe(m.id)}; },
      [this](const estimate_reuse& m) { return reuse_estimated{engine_->estimate(m.tenant, m.id, m.prompt)}; },
      [this](const read_blocks& m) { return read(m); },
      [this](begin_import& m) { return begin(m); },
      [this](const write_blocks& m) { return write(m); },
      [this](const end_import& m) {
        import_went out{engine_->end_import(m.id)};
        changed();
        return out;
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
  courier_ = nullptr;
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
    own(sequence, current_sender());
  }
  changed();
}

void gpu_worker::own(gpu::sequence_id sequence, const caf::strong_actor_ptr& owner) {
  auto session = caf::actor_cast<session_actor>(owner);
  if (!session || sequences_.contains(sequence)) return;
  owners_.emplace(session.id(), sequence);
  monitor(session);
  sequences_.emplace(sequence, owned{std::move(session), {}});
}

void gpu_worker::changed() {
  board_->publish(engine_->stats());
  wake();
}

sequence_forked gpu_worker::fork(const fork_sequence& m) {
  if (auto forked = engine_->fork(m.from, m.to, std::min(m.length, engine_->tokens_of(m.from))); !forked)
    return {std::unexpected(std::move(forked.error()))};
  own(m.to, m.owner);
  changed();
  return {engine_->state_of(m.to)};
}

blocks_read gpu_worker::read(const read_blocks& m) const {
  blocks_read out{engine_->state_of(m.id), {}, m.table, m.block, false};
  if (!out.state) return out;
  const auto tables = static_cast<std::int32_t>(engine_->info().windows.size());
  const auto blocks = gpu::blocks_for(out.state->committed);
  for (std::size_t bytes = 0; bytes < message_bytes; ++out.block) {
    if (out.block >= blocks) {
      out.block = 0;
      out.table += 1;
    }
    out.done = out.table >= tables || blocks == 0;
    if (out.done) return out;
    auto lines = engine_->read_block(m.id, out.table, out.block);
    if (!lines && lines.error().code == "not_found") continue;
    if (!lines) {
      out.state = std::unexpected(std::move(lines.error()));
      return out;
    }
    bytes += lines->bytes.size();
    out.blocks.push_back(std::move(*lines));
  }
  return out;
}

import_went gpu_worker::begin(begin_import& m) {
  auto begun = engine_->begin_import(m.id, m.tenant, std::move(m.state));
  if (begun) own(m.id, current_sender());
  changed();
  return {std::move(begun)};
}

import_went gpu_worker::write(const write_blocks& m) {
  for (const auto& lines : m.blocks) {
    if (auto written = engine_->import_block(m.id, lines); !written) return {std::move(written)};
  }
  return {};
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
  step_outputs brought;
  for (const auto sequence : touched_) {
    auto& [owner, outputs] = sequences_.find(sequence)->second;
    brought.of.emplace_back(owner, turn_outputs{std::exchange(outputs, {})});
  }
  touched_.clear();
  // First, so that whoever has an answer finds its steps counted.
  board_->beat();
  board_->publish(engine_->stats());
  if (!brought.of.empty()) send(courier_, std::move(brought));
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
  check_drained();
  changed();
}

void gpu_worker::check_drained() {
  if (!sequences_.empty() || !engine_->idle()) return;
  // The courier keeps them: it may have outputs under way.
  for (auto& promise : waiting_) send(courier_, drain{parcel(std::move(promise))});
  waiting_.clear();
}

}  // namespace kvern::actors
