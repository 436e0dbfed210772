#include <caf/send.hpp>

#include <algorithm>
#include <utility>

#include "actors/explain.hpp"
#include "actors/prompt_tokens.hpp"
#include "actors/session.hpp"
#include "actors/unix_time.hpp"

/// What a session does with its cache beside turns: each asks the worker and answers when it has said its part.
namespace kvern::actors {
namespace {

error wrong_length(std::int64_t wanted, std::int64_t has) {
  return {"invalid_request",
          "tokens is " + std::to_string(wanted) + "; the session has " + std::to_string(has) + ", so 0 to that."};
}

/// A session's tokens, where the worker has only those it needed: the last one of an answer may be missing there.
std::vector<token_id> completed(std::vector<token_id> of_worker, std::span<const token_id> own) {
  const bool begins = of_worker.size() <= own.size() && std::equal(of_worker.begin(), of_worker.end(), own.begin());
  return begins ? std::vector<token_id>(own.begin(), own.end()) : of_worker;
}

/// Tells of a new session of which nothing came that it has no purpose.
class unused_session {
 public:
  explicit unused_session(session_actor actor) : actor_(std::move(actor)) {}
  unused_session(const unused_session&) = delete;
  unused_session& operator=(const unused_session&) = delete;
  ~unused_session() {
    if (actor_) caf::anon_send(actor_, stop_turns{session_not_found(), true});
  }

  session_actor take() { return std::exchange(actor_, nullptr); }

 private:
  session_actor actor_;
};

}  // namespace

error session::lost_worker() const { return worker_failed(context_->board->failure()); }

void session::describe(parcel<port<session_info>> to) {
  ask<sequence_described>(
      describe_sequence{who_.sequence},
      [this, to](sequence_described& said) mutable {
        auto out = info();
        auto& cached = out.cached.emplace(said.info.value_or(gpu::sequence_info{}));
        // The worker tells of steps whose outputs are still on their way.
        for (auto* lines : {&cached.committed, &cached.reusable}) *lines = std::min(*lines, out.tokens);
        to.take().answer(std::move(out));
      },
      [this, to]() mutable { to.take().answer(info()); });
}

void session::rewind(const rewind_session& m) {
  auto to = m.to;
  const auto length = m.tokens;
  if (occupied()) return to.take().answer(std::unexpected(session_busy()));
  if (length < 0 || length > std::ssize(history_.tokens))
    return to.take().answer(std::unexpected(wrong_length(length, std::ssize(history_.tokens))));
  history_.last_used = unix_now();
  if (history_.tokens.empty()) return to.take().answer(rewound_session{info(), 0});
  occupied_ = true;
  ask<sequence_rewound>(
      rewind_sequence{who_.sequence, length},
      [this, to, length, use = m.in_use](sequence_rewound& said) mutable {
        occupied_ = false;
        if (!said.reusable) {
          const bool busy = said.reusable.error().code == "busy";
          return to.take().answer(std::unexpected(busy ? session_busy() : std::move(said.reusable.error())));
        }
        history_.tokens.resize(static_cast<std::size_t>(length));
        history_.committed = std::min(history_.committed, length);
        to.take().answer(rewound_session{info(), *said.reusable});
      },
      [this, to]() mutable {
        occupied_ = false;
        to.take().answer(std::unexpected(lost_worker()));
      });
}

void session::fork(fork_session& m) {
  auto to = m.to;
  const auto child = std::make_shared<unused_session>(caf::actor_cast<session_actor>(m.child));
  const auto length = m.tokens.value_or(std::ssize(history_.tokens));
  if (length < 0 || length > std::ssize(history_.tokens))
    return to.take().answer(std::unexpected(wrong_length(length, std::ssize(history_.tokens))));
  history_.last_used = unix_now();
  forked_session own;
  own.tokens.assign(history_.tokens.begin(), history_.tokens.begin() + length);
  own.settings = history_.settings;
  own.forgotten = history_.forgotten;
  if (length == 0) return send(child->take(), take_over{std::move(own), std::move(to)});
  // Sent from here, it comes before whatever this session does next to its sequence.
  ask<sequence_forked>(
      fork_sequence{who_.sequence, m.child_sequence, length, m.child},
      [this, to, child, own, sequence = m.child_sequence, use = m.in_use](sequence_forked& said) mutable {
        if (!said.state) return to.take().answer(std::unexpected(std::move(said.state.error())));
        // A turn may have begun that this session had not heard of: what its client was sent counts.
        const auto& theirs = said.state->tokens;
        const auto common = std::ranges::mismatch(theirs, own.tokens).in1 - theirs.begin();
        if (common < std::ssize(theirs)) send(context_->worker, cut_sequence{sequence, common});
        own.committed = std::min<std::int64_t>(said.state->committed, common);
        send(child->take(), take_over{std::move(own), to});
      },
      [this, to]() mutable { to.take().answer(std::unexpected(lost_worker())); });
}

void session::take(take_over& m) {
  history_.tokens = std::move(m.what.tokens);
  history_.committed = m.what.committed;
  history_.settings = m.what.settings;
  history_.forgotten = m.what.forgotten;
  m.to.take().answer(info());
}

// ---- export -----------------------------------------------------------------------------------------------------

/// An export under way.
struct session::file_in_parts {
  parcel<port<std::string>> to;
  std::shared_ptr<gate::pass> in_use;
  gpu::sequence_state state = {};
  std::vector<gpu::block_lines> blocks = {};
  read_blocks next = {};
};

void session::write_file(const export_session& m) {
  auto to = m.to;
  if (occupied()) return to.take().answer(std::unexpected(session_busy()));
  history_.last_used = unix_now();
  if (history_.tokens.empty()) return to.take().answer(write_session_file(*context_->file_terms, {}, {}));
  occupied_ = true;
  auto file = std::make_shared<file_in_parts>(to, m.in_use);
  file->next.id = who_.sequence;
  write_part(std::move(file));
}

void session::write_part(std::shared_ptr<file_in_parts> file) {
  const auto question = file->next;
  ask<blocks_read>(
      question,
      [this, file](blocks_read& said) {
        const bool first = file->next.table == 0 && file->next.block == 0;
        if (said.state && !first && said.state->committed != file->state.committed) {
          said.state = fail("server_busy", "Lines of the session were evicted while it was exported; try again.");
        }
        if (!said.state) {
          occupied_ = false;
          return file->to.take().answer(std::unexpected(std::move(said.state.error())));
        }
        file->state = std::move(*said.state);
        std::ranges::move(said.blocks, std::back_inserter(file->blocks));
        file->next.table = said.table;
        file->next.block = said.block;
        if (!said.done) return write_part(file);
        occupied_ = false;
        file->state.tokens = completed(std::move(file->state.tokens), history_.tokens);
        std::move_only_function<void(std::optional<error>)> run = [context = context_,
                                                                   file](std::optional<error> refused) {
          auto answer = file->to.take();
          if (refused) return answer.answer(std::unexpected(std::move(*refused)));
          try {
            answer.answer(write_session_file(*context->file_terms, file->state, std::move(file->blocks)));
          } catch (...) {
            answer.answer(std::unexpected(internal_error()));
          }
        };
        send(context_->scribe, long_job{who_.tenant, parcel(std::move(run))});
      },
      [this, file] {
        occupied_ = false;
        file->to.take().answer(std::unexpected(lost_worker()));
      });
}

// ---- import -----------------------------------------------------------------------------------------------------

/// An import under way.
struct session::file_to_take {
  session_file file;
  parcel<port<session_info>> to;
  std::shared_ptr<gate::pass> in_use;
};

void session::take(take_file& m) {
  auto file = std::make_shared<file_to_take>(m.file.take(), m.to, m.in_use);
  if (file->file.state().tokens.empty()) return took_file(*file, {});
  occupied_ = true;
  ask<import_went>(
      begin_import{who_.sequence, who_.tenant, file->file.state()},
      [this, file](import_went& said) {
        if (!said.well) return took_file(*file, std::move(said.well));
        take_part(file);
      },
      [this, file] { took_file(*file, std::unexpected(lost_worker())); });
}

void session::take_part(std::shared_ptr<file_to_take> file) {
  constexpr std::size_t bytes = std::size_t{4} << 20;
  auto blocks = file->file.next(bytes);
  const auto broken = [this, file] { took_file(*file, std::unexpected(lost_worker())); };
  if (blocks.empty()) {
    return ask<import_went>(
        end_import{who_.sequence}, [this, file](import_went& said) { took_file(*file, std::move(said.well)); }, broken);
  }
  ask<import_went>(
      write_blocks{who_.sequence, std::move(blocks)},
      [this, file](import_went& said) {
        if (!said.well) return took_file(*file, std::move(said.well));
        take_part(file);
      },
      broken);
}

void session::took_file(file_to_take& file, result<void> well) {
  occupied_ = false;
  if (!well) {
    file.to.take().answer(std::unexpected(std::move(well.error())));
    return quit();
  }
  const auto& state = file.file.state();
  history_.tokens = state.tokens;
  history_.committed = state.committed;
  if (state.rotate.ring > 0)
    history_.settings = {gpu::overflow_policy::rotate, std::int64_t{state.rotate.keep} * gpu::page_lines};
  file.to.take().answer(info());
}

// ---- explain ----------------------------------------------------------------------------------------------------

void session::explain(explain_prompt& m) {
  const bool is_long = prompt_weight(m.prompt) > long_prompt;
  // A weak handle: a job that waits must not keep a session alive.
  std::move_only_function<void(std::optional<error>)> run =
      [context = context_, cached = history_.tokens, p = std::move(m.prompt), answer = m.to, use = m.in_use,
       me = caf::actor_cast<caf::weak_actor_ptr>(this)](std::optional<error> refused) {
        const auto to = caf::actor_cast<session_actor>(me);
        if (!to) return;
        prompt_explained out{std::unexpected(internal_error()), {}, answer, use};
        try {
          auto found = refused ? std::unexpected(std::move(*refused))
                               : actors::explain(p, cached, *context->tokens, context->chat_template.get(), unix_now());
          if (found) {
            out.what = std::move(found->what);
            out.prompt = std::move(found->prompt);
          } else {
            out.what = std::unexpected(std::move(found.error()));
          }
        } catch (...) {
          // The answer is that there was an internal error.
        }
        caf::anon_send(to, std::move(out));
      };
  if (!is_long) return run({});
  send(context_->scribe, long_job{who_.tenant, parcel(std::move(run))});
}

void session::explained(prompt_explained& m) {
  auto to = m.to;
  if (!m.what) return to.take().answer(std::unexpected(std::move(m.what.error())));
  const auto tokens = std::ssize(m.prompt);
  ask<reuse_estimated>(
      estimate_reuse{who_.tenant, who_.sequence, std::move(m.prompt)},
      [to, tokens, what = std::move(*m.what), use = m.in_use](reuse_estimated& said) mutable {
        what.cache.reused = said.estimate.reused;
        what.cache.shared = said.estimate.shared;
        what.cache.computed = tokens - said.estimate.reused;
        to.take().answer(std::move(what));
      },
      [this, to]() mutable { to.take().answer(std::unexpected(lost_worker())); });
}

}  // namespace kvern::actors
