#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "actors/service.hpp"
#include "ipc/completion_format.hpp"
#include "ipc/completion_request.hpp"

namespace kvern::ipc {

/// Turns the events of one request's generations into its answer: server-sent events as they come, or one JSON object
/// at the end. Knows no socket; not thread-safe.
class completion {
 public:
  /// Keeps of `request` what shapes the answer. `vocabulary`, asked for the bytes of tokens, must outlive this.
  completion(const completion_request& request, completion_head head, const service& vocabulary);

  /// Takes the next event of choice `index`. Once there is a failure further events are ignored.
  void on_event(std::size_t index, generation_event event);

  /// Ends the answer with an error from elsewhere ("shutting_down").
  void fail(error why);

  /// The server-sent events that became due since the last call: chunks, at the end `[DONE]`, or an error event.
  std::string take_frames();

  /// Whether every choice ended, or there was a failure.
  bool finished() const { return failure_ || ended_ == choices_.size(); }
  /// Why there is no (further) answer: a choice was refused or failed.
  const std::optional<error>& failure() const { return failure_; }

  /// Tokens so far; of prompts that several choices share once.
  token_usage usage() const;
  /// The finish reasons of the choices that ended, each once: "stop", "stop,length".
  std::string finish_reasons() const;

  /// The whole answer's body, for requests that do not stream. Call it once, when finished without failure.
  std::string body();

 private:
  struct choice {
    std::vector<token_id> prompt;
    std::string text;                     ///< not streamed: all of it
    std::vector<generated_token> tokens;  ///< not streamed and asked for: all of them
    cache_report cache;
    end_event end;
    std::int64_t text_offset = 0;
    std::int64_t prompt_size = 0;
    std::int64_t generated = 0;  ///< tokens that came in events
    std::int64_t progress = -1;
    bool started = false;
    bool opened = false;  ///< its first chunk was sent
    bool ended = false;
  };

  void on(std::size_t index, started_event e);
  void on(std::size_t index, const progress_event& e);
  void on(std::size_t index, text_event e);
  void on(std::size_t index, end_event e);

  bool chat() const { return kind_ == completion_kind::chat; }
  boost::json::object logprobs_of(choice& c, std::span<const generated_token> tokens) const;
  boost::json::object whole_choice(std::size_t index);

  void open(std::size_t index);
  void send_progress(std::size_t index, std::int64_t processed);
  boost::json::object stream_choice(std::size_t index, std::string_view text) const;
  void send(boost::json::array choices, boost::json::object more = {});
  void frame(const boost::json::value& v);

  completion_kind kind_;
  completion_head head_;
  const service& vocabulary_;
  std::size_t per_prompt_;
  std::int32_t logprobs_;
  bool stream_;
  bool include_usage_;
  bool include_progress_;
  bool return_token_ids_;

  std::vector<choice> choices_;
  std::size_t ended_ = 0;
  std::optional<error> failure_;
  std::string frames_;
};

}  // namespace kvern::ipc
