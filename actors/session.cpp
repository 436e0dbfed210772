#include "actors/session.hpp"

#include <caf/send.hpp>

#include <utility>

#include "actors/errors.hpp"
#include "actors/info_collector.hpp"
#include "actors/prompt_tokens.hpp"
#include "actors/unix_time.hpp"

namespace kvern::actors {
namespace {

/// The tokens of a prompt; what the libraries throw (memory) as an error.
result<std::vector<token_id>> tokens_of(const prompt& p, const session_context& context) {
  try {
    return prompt_tokens(p, *context.tokens, context.chat_template.get(), unix_now());
  } catch (...) {
    return std::unexpected(internal_error());
  }
}

}  // namespace

session::session(caf::actor_config& config, std::shared_ptr<const session_context> context, session_identity who,
                 session_settings settings, parcel<gate::pass> pass)
    : session_actor::base(config), context_(std::move(context)), who_(std::move(who)), pass_(pass.take()) {
  history_.created = unix_now();
  history_.last_used = history_.created;
  history_.settings = settings;
}

session::behavior_type session::make_behavior() {
  return {
      [this](start_turn& m) { contained([&] { start(m.request.take()); }); },
      [this](const cancel_request& m) {
        if (turn_ && turn_->request().receipt == m.receipt) contained([&] { cancel(); });
      },
      [this](turn_refused& m) {
        if (!turn_ || !submitted_ || turn_->id() != m.id) return;
        turn_->fail(m.why.code == "busy" ? session_busy() : std::move(m.why));
        over();
      },
      [this](turn_outputs& m) { contained([&] { take(m.outputs); }); },
      [this](prompt_ready& m) {
        if (turn_ && !submitted_ && m.request == request_) contained([&] { submit(std::move(m.tokens)); });
      },
      [this](const report_info& m) { m.to->add(info()); },
      [this](session_command& m) { contained([&] { command(m.verb, m.to); }); },
      [this](const rewind_session& m) { contained([&] { rewind(m); }); },
      [this](const export_session& m) { contained([&] { write_file(m); }); },
      [this](explain_prompt& m) { contained([&] { explain(m); }); },
      [this](prompt_explained& m) { contained([&] { explained(m); }); },
      [this](fork_session& m) { contained([&] { fork(m); }); },
      [this](take_over& m) { contained([&] { take(m); }); },
      [this](take_file& m) { contained([&] { take(m); }); },
      [this](const stop_turns& m) { contained([&] { stop(m.why, m.quit); }); },
  };
}

void session::on_exit() {
  turn_.reset();
  pass_.reset();
}

void session::start(pending_request request) {
  if (occupied()) {
    request.events.refuse(session_busy());
    return;
  }
  auto made = running_turn::create(request, context_->tokens);
  if (!made) {
    request.events.refuse(made.error());
    over();
    return;
  }
  turn_ = std::move(*made);
  history_.last_used = unix_now();
  request_ += 1;
  prepare();
}

void session::prepare() {
  if (turn_->request().receipt->cancelled.load()) return cancel();
  auto p = turn_->take_prompt();
  if (prompt_weight(p) <= long_prompt) return submit(tokens_of(p, *context_));
  // A weak handle: a job that waits must not keep a session alive.
  std::move_only_function<void(std::optional<error>)> run =
      [context = context_, receipt = turn_->request().receipt, p = std::move(p), number = request_,
       me = caf::actor_cast<caf::weak_actor_ptr>(this)](std::optional<error> refused) {
        const auto to = caf::actor_cast<session_actor>(me);
        if (!to) return;
        // A cancelled request has its answer already; its tokens are of no use.
        if (receipt->cancelled.load()) return;
        auto tokens = refused ? std::unexpected(std::move(*refused)) : tokens_of(p, *context);
        caf::anon_send(to, prompt_ready{number, std::move(tokens)});
      };
  send(context_->scribe, long_job{turn_->request().tenant, parcel(std::move(run))});
}

void session::submit(result<std::vector<token_id>> tokens) {
  if (!tokens) {
    turn_->fail(std::move(tokens.error()));
    return over();
  }
  // The client may have left while its prompt was tokenized: what is dead in the queue never starts.
  if (turn_->request().receipt->cancelled.load()) return cancel();
  auto turn = turn_->plan(std::move(*tokens), history_, context_->board->next_turn.fetch_add(1), who_.sequence,
                          context_->file_terms->info.context);
  if (!turn) {
    turn_->fail(std::move(turn.error()));
    return over();
  }
  submitted_ = true;
  send(context_->worker, submit_turn{std::move(*turn)});
}

void session::take(std::vector<gpu::turn_output>& outputs) {
  for (auto& output : outputs) {
    if (!turn_ || !submitted_ || output.id != turn_->id()) continue;
    switch (turn_->take(output, history_, unix_now())) {
      case running_turn::verdict::goes_on:
        break;
      case running_turn::verdict::cancel:
        send(context_->worker, cancel_turn{turn_->id(), std::ssize(history_.tokens)});
        break;
      case running_turn::verdict::over:
        over();
        break;
    }
  }
}

void session::cancel() {
  if (!submitted_) {
    turn_->cancelled();
    return over();
  }
  if (turn_->cancel(history_)) send(context_->worker, cancel_turn{turn_->id(), std::ssize(history_.tokens)});
}

void session::command(session_verb verb, parcel<port<session_info>> to) {
  if (verb == session_verb::describe) return describe(std::move(to));
  if (verb == session_verb::cancel && turn_) cancel();
  if (verb == session_verb::end && turn_) {
    turn_->cancelled();
    over();
  }
  to.take().answer(info());
  if (verb == session_verb::end) quit();
}

void session::stop(error why, bool and_quit) {
  if (turn_) {
    if (submitted_) send(context_->worker, cancel_turn{turn_->id(), std::ssize(history_.tokens)});
    turn_->fail(std::move(why));
    over();
  }
  if (and_quit) quit();
}

void session::over() {
  const bool more = submitted_ && turn_->told() > std::ssize(history_.tokens);
  turn_.reset();
  history_.tokens.shrink_to_fit();  // an idle session keeps no more than it needs
  submitted_ = false;
  if (who_.id.empty()) return quit();
  // An end token, and what came with the last text that could not be delivered: the client has none of it.
  if (more) send(context_->worker, cut_sequence{who_.sequence, std::ssize(history_.tokens)});
}

session_info session::info() const {
  session_info out;
  out.id = who_.id;
  out.tokens = static_cast<std::int64_t>(history_.tokens.size());
  out.committed = history_.committed;
  out.turns = history_.turns;
  out.running = turn_ != nullptr;
  out.created = history_.created;
  out.last_used = history_.last_used;
  out.last_validation = history_.last_validation;
  out.settings = history_.settings;
  out.forgotten = history_.forgotten;
  return out;
}

}  // namespace kvern::actors
