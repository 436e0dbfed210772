#pragma once

#include <caf/typed_event_based_actor.hpp>

#include <memory>
#include <optional>
#include <string>

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
};

/// Who a session is.
struct session_identity {
  std::string id;  ///< empty: serves one request and ends
  gpu::sequence_id sequence = 0;
};

/// One conversation: makes tokens of prompts, submits turns to the worker, hands what it says to the client. One turn
/// at a time. Holds little beyond its tokens while no turn runs. The worker releases its sequence when it ends.
class session : public session_actor::base {
 public:
  session(caf::actor_config& config, std::shared_ptr<const session_context> context, session_identity who,
          parcel<gate::pass> pass);

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
  void command(session_verb verb, port<session_info> to);
  void stop(error why, bool quit);
  void over();
  session_info info() const;
  template <class F>
  void contained(F work);

  std::shared_ptr<const session_context> context_;
  const session_identity who_;
  gate::pass pass_;
  session_history history_;
  std::unique_ptr<running_turn> turn_;
  std::uint64_t request_ = 0;  ///< number of the latest request, to know late answers of the scribe
  bool submitted_ = false;     ///< the worker has the turn
};

}  // namespace kvern::actors
