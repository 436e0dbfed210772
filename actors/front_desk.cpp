#include "actors/front_desk.hpp"

#include <fmt/core.h>

#include <utility>

#include "actors/errors.hpp"
#include "actors/info_collector.hpp"
#include "actors/session_id.hpp"

namespace kvern::actors {

front_desk::front_desk(caf::actor_config& config, std::shared_ptr<const session_context> context,
                       std::int32_t max_sessions_per_tenant, gate doors, parcel<gate::pass> pass)
    : front_desk_actor::base(config),
      context_(std::move(context)),
      max_sessions_(max_sessions_per_tenant),
      doors_(std::move(doors)),
      pass_(pass.take()) {
  set_down_handler([this](caf::down_msg& down) { forget(down.source.id()); });
}

front_desk::behavior_type front_desk::make_behavior() {
  return {
      [this](start_turn& m) { start(m.request.take()); },
      [this](const cancel_request& m) {
        const auto found = sessions_.find(m.receipt->session);
        if (found != sessions_.end()) send(found->second.actor, m);
      },
      [this](create_session& m) { create(m.tenant, m.to.take()); },
      [this](list_sessions& m) { list(m.tenant, m.to.take()); },
      [this](named_session_command& m) { command(m); },
      [this](const worker_gone& m) {
        worker_gone_ = m.why;
        for (auto& [sequence, e] : sessions_) send(e.actor, stop_turns{m.why, false});
      },
      [this](stop_service& m) { stop(m.done.take()); },
  };
}

void front_desk::on_exit() {
  sessions_.clear();
  waiting_.clear();
  context_.reset();
  pass_.reset();
}

std::optional<error> front_desk::closed() const {
  if (stopping_) return shutting_down();
  return worker_gone_;
}

void front_desk::start(pending_request request) {
  if (auto why = closed()) {
    request.events.refuse(std::move(*why));
    return;
  }
  const auto& id = request.request.session;
  auto* to = id.empty() ? &spawn_session({}, request.tenant) : find(request.tenant, id);
  if (!to) {
    request.events.refuse(session_not_found());
    return;
  }
  request.receipt->session = actors_.at(to->actor.id());
  send(to->actor, start_turn{parcel(std::move(request))});
}

void front_desk::create(const std::string& tenant, port<session_info> to) {
  if (auto why = closed()) return to.answer(std::unexpected(std::move(*why)));
  const auto has = named_per_tenant_.find(tenant);
  if (has != named_per_tenant_.end() && has->second >= max_sessions_) {
    return to.answer(
        fail("too_many_sessions", fmt::format("You have {} sessions, as many as you may; delete one.", has->second)));
  }
  auto id = make_session_id();
  if (id.empty() || names_.contains(id)) return to.answer(std::unexpected(internal_error()));
  const auto& e = spawn_session(std::move(id), tenant);
  send(e.actor, session_command{session_verb::get, parcel(std::move(to))});
}

void front_desk::list(const std::string& tenant, port<std::vector<session_info>> to) {
  if (stopping_) return to.answer(std::unexpected(shutting_down()));
  const auto collector = std::make_shared<info_collector>(std::move(to));
  for (auto& [sequence, e] : sessions_) {
    if (e.id && e.tenant == tenant) send(e.actor, report_info{collector});
  }
}

void front_desk::command(named_session_command& m) {
  if (stopping_) return m.command.to.take().answer(std::unexpected(shutting_down()));
  auto* e = find(m.tenant, m.id);
  if (!e) return m.command.to.take().answer(std::unexpected(session_not_found()));
  const auto verb = m.command.verb;
  send(e->actor, std::move(m.command));
  if (verb == session_verb::end) remove_name(*e);
}

void front_desk::stop(std::promise<void> when_idle) {
  waiting_.push_back(std::move(when_idle));
  if (!std::exchange(stopping_, true)) {
    for (auto& [sequence, e] : sessions_) send(e.actor, stop_turns{shutting_down(), true});
  }
  check_stopped();
}

front_desk::entry& front_desk::spawn_session(std::string id, const std::string& tenant) {
  const auto sequence = ++last_sequence_;
  auto actor = spawn<session>(context_, session_identity{id, sequence}, parcel(doors_.enter()));
  monitor(actor);
  actors_.emplace(actor.id(), sequence);
  const std::string* name = nullptr;
  if (!id.empty()) {
    name = &names_.emplace(std::move(id), sequence).first->first;
    named_per_tenant_[tenant] += 1;
    context_->board->sessions.fetch_add(1);
  }
  return sessions_.emplace(sequence, entry{std::move(actor), name, tenant}).first->second;
}

front_desk::entry* front_desk::find(const std::string& tenant, const std::string& id) {
  const auto name = names_.find(id);
  if (name == names_.end()) return nullptr;
  auto& e = sessions_.at(name->second);
  return e.tenant == tenant ? &e : nullptr;
}

void front_desk::remove_name(entry& e) {
  if (!e.id) return;
  names_.erase(names_.find(*std::exchange(e.id, nullptr)));
  context_->board->sessions.fetch_sub(1);
  const auto count = named_per_tenant_.find(e.tenant);
  if (--count->second == 0) named_per_tenant_.erase(count);
}

void front_desk::forget(caf::actor_id session) {
  const auto found = actors_.find(session);
  if (found == actors_.end()) return;
  const auto e = sessions_.find(found->second);
  remove_name(e->second);
  sessions_.erase(e);
  actors_.erase(found);
  check_stopped();
}

void front_desk::check_stopped() {
  if (!stopping_ || !sessions_.empty()) return;
  for (auto& when_idle : std::exchange(waiting_, {})) send(context_->worker, drain{parcel(std::move(when_idle))});
}

}  // namespace kvern::actors
