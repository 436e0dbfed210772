#pragma once

#include <caf/typed_event_based_actor.hpp>

#include <memory>
#include <optional>
#include <string>

#include "actors/errors.hpp"
#include "actors/gate.hpp"
#include "actors/messages.hpp"
#include "actors/running_turn.hpp"
#include "actors/session_history.hpp"
#include "actors/status_board.hpp"
#include "model/chat/chat_template.hpp"
#include "model/tokenizer/tokenizer.hpp"

namespace kvern::actors {

/// What all sessions share.
struct session_context {
  std::shared_ptr<const tokenizer> tokens;
  std::shared_ptr<const chat::chat_template> chat_template;  ///< null: the model has none
  worker_actor worker;
  scribe_actor scribe;
  std::shared_ptr<status_board> board;
  std::shared_ptr<const session_file_terms> file_terms;
};

/// Who a session is.
struct session_identity {
  std::string id;  ///< empty: serves one request and ends
  std::string tenant;
  gpu::sequence_id sequence = 0;
};

/// One conversation: makes tokens of prompts, submits turns to the worker, hands what it says to the client. One turn
/// at a time. Holds little beyond its tokens while no turn runs. The worker releases its sequence when it ends.
class session : public session_actor::base {
 public:
  session(caf::actor_config& config, std::shared_ptr<const session_context> context, session_identity who,
          session_settings settings, parcel<gate::pass> pass);

  /// Prompts of more bytes are tokenized by the scribe.
  static constexpr std::size_t long_prompt = 64u << 10;

  behavior_type make_behavior() override;
  void on_exit() override;

 private:
  void start(pending_request request);
  void prepare();
  void submit(result<std::vector<token_id>> tokens);
  void take(std::vector<gpu::turn_output>& outputs);
  void cancel();
  void command(session_verb verb, parcel<port<session_info>> to);
  void describe(parcel<port<session_info>> to);
  void stop(error why, bool quit);
  void over();
  session_info info() const;
  template <class F>
  void contained(F work);

  void rewind(const rewind_session& m);
  void fork(fork_session& m);
  void take(take_over& m);
  void write_file(const export_session& m);
  struct file_in_parts;
  void write_part(std::shared_ptr<file_in_parts> file);
  void take(take_file& m);
  struct file_to_take;
  void take_part(std::shared_ptr<file_to_take> file);
  void took_file(file_to_take& file, result<void> well);
  void explain(explain_prompt& m);
  void explained(prompt_explained& m);
  error lost_worker() const;
  bool occupied() const { return turn_ || occupied_; }
  template <class Answer, class M, class Then, class Else>
  void ask(M question, Then then, Else otherwise);

  std::shared_ptr<const session_context> context_;
  const session_identity who_;
  gate::pass pass_;
  session_history history_;
  std::unique_ptr<running_turn> turn_;
  std::uint64_t request_ = 0;  ///< number of the latest request, to know late answers of the scribe
  bool submitted_ = false;     ///< the worker has the turn
  bool occupied_ = false;      ///< by a command that no turn may cross
};

/// Keeps the session alive through what a handler throws: its turn fails, its history stays what the client has.
template <class F>
void session::contained(F work) {
  try {
    work();
  } catch (...) {
    occupied_ = false;
    stop(internal_error(), false);
  }
}

/// Asks the worker; `otherwise` runs when it is gone.
template <class Answer, class M, class Then, class Else>
void session::ask(M question, Then then, Else otherwise) {
  request(context_->worker, caf::infinite, std::move(question))
      .then([this, then = std::move(then)](Answer& answer) mutable { contained([&] { then(answer); }); },
            [this, otherwise = std::move(otherwise)](const caf::error&) mutable { contained([&] { otherwise(); }); });
}

}  // namespace kvern::actors
