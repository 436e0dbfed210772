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
      [this](create_session& m) { create(m); },
      [this](import_session& m) { import(m); },
      [this](list_sessions& m) { list(m.tenant, m.to.take()); },
      [this](named<session_command>& m) { command(m); },
      [this](named<rewind_session>& m) { pass_on(m); },
      [this](named<export_session>& m) { pass_on(m); },
      [this](named<explain_prompt>& m) { pass_on(m); },
      [this](named<fork_session>& m) { fork(m); },
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
  auto* to = id.empty() ? &spawn_session({}, request.tenant, {}) : find(request.tenant, id);
  if (!to) {
    request.events.refuse(session_not_found());
    return;
  }
  request.receipt->session = actors_.at(to->actor.id());
  request.in_use = to->use.enter();
  to->last_use = ++uses_;
  send(to->actor, start_turn{parcel(std::move(request))});
}

void front_desk::create(create_session& m) {
  const auto e = make_named(m.tenant, m.settings);
  if (!e) return m.to.take().answer(std::unexpected(e.error()));
  send((*e)->actor, session_command{session_verb::get, std::move(m.to)});
}

void front_desk::import(import_session& m) {
  const auto e = make_named(m.tenant, {});
  if (!e) return m.to.take().answer(std::unexpected(e.error()));
  send((*e)->actor, take_file{std::move(m.file), std::move(m.to), use(**e)});
}

void front_desk::fork(named<fork_session>& m) {
  auto* parent = find_for(m);
  if (!parent) return;
  m.command.in_use = use(*parent);
  const auto child = make_named(m.tenant, {});
  if (!child) return m.command.to.take().answer(std::unexpected(child.error()));
  m.command.child = caf::actor_cast<caf::strong_actor_ptr>((*child)->actor);
  m.command.child_sequence = actors_.at((*child)->actor.id());
  send(parent->actor, std::move(m.command));
}

/// A new session with a name.
result<front_desk::entry*> front_desk::make_named(const std::string& tenant, const session_settings& settings) {
  if (auto why = closed()) return std::unexpected(std::move(*why));
  if (auto room = make_room(tenant); !room) return std::unexpected(std::move(room.error()));
  auto id = make_session_id();
  if (id.empty() || names_.contains(id)) return std::unexpected(internal_error());
  auto& e = spawn_session(std::move(id), tenant, settings);
  e.last_use = ++uses_;
  return &e;
}

/// At a tenant's limit its least recently used session ends, of those that do nothing.
result<void> front_desk::make_room(const std::string& tenant) {
  const auto has = named_per_tenant_.find(tenant);
  if (has == named_per_tenant_.end() || has->second < max_sessions_) return {};
  entry* oldest = nullptr;
  for (auto& [sequence, e] : sessions_) {
    const bool idle = e.id && e.tenant == tenant && e.use.inside() == 0;
    if (idle && (!oldest || e.last_use < oldest->last_use)) oldest = &e;
  }
  if (!oldest) {
    return fail(
        "too_many_sessions",
        fmt::format("You have {} sessions, as many as you may, and all are in use; wait or delete one.", has->second));
  }
  send(oldest->actor, stop_turns{session_not_found(), true});
  remove_name(*oldest);
  return {};
}

std::shared_ptr<gate::pass> front_desk::use(entry& e) {
  e.last_use = ++uses_;
  return std::make_shared<gate::pass>(e.use.enter());
}

void front_desk::list(const std::string& tenant, port<std::vector<session_info>> to) {
  if (stopping_) return to.answer(std::unexpected(shutting_down()));
  const auto collector = std::make_shared<info_collector>(std::move(to));
  for (auto& [sequence, e] : sessions_) {
    if (e.id && e.tenant == tenant) send(e.actor, report_info{collector});
  }
}

/// The session that a command is for; without one the command is answered.
template <class T>
front_desk::entry* front_desk::find_for(named<T>& m) {
  auto* e = stopping_ ? nullptr : find(m.tenant, m.id);
  if (!e) m.command.to.take().answer(std::unexpected(stopping_ ? shutting_down() : session_not_found()));
  return e;
}

template <class T>
void front_desk::pass_on(named<T>& m) {
  auto* e = find_for(m);
  if (!e) return;
  m.command.in_use = use(*e);
  send(e->actor, std::move(m.command));
}

void front_desk::command(named<session_command>& m) {
  auto* e = find_for(m);
  if (!e) return;
  // Before the session answers: who has the answer must not find it in a count.
  if (m.command.verb == session_verb::end) remove_name(*e);
  send(e->actor, std::move(m.command));
}

void front_desk::stop(std::promise<void> when_idle) {
  waiting_.push_back(std::move(when_idle));
  if (!std::exchange(stopping_, true)) {
    for (auto& [sequence, e] : sessions_) send(e.actor, stop_turns{shutting_down(), true});
  }
  check_stopped();
}

front_desk::entry& front_desk::spawn_session(std::string id, const std::string& tenant,
                                             const session_settings& settings) {
  const auto sequence = ++last_sequence_;
  auto actor = spawn<session>(context_, session_identity{id, tenant, sequence}, settings, parcel(doors_.enter()));
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
