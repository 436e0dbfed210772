#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "actors/service.hpp"
#include "actors/stop_matcher.hpp"
#include "model/tokenizer/tokenizer.hpp"

namespace kvern::actors {

/// The text of one answer: tokens in, certain text out. Holds back bytes of unfinished characters and what may become
/// a stop string. A token is given out with the text that completes it, never before; the text given out is what the
/// client has, and its tokens are what the session may keep. Not thread-safe.
class turn_text {
 public:
  turn_text(std::shared_ptr<const tokenizer> tokens, stop_matcher stops);

  /// What `token` makes certain; maybe neither text nor tokens. After a stop string was met: nothing.
  text_event push(token_id token, token_logprob logprob);

  /// The answer ends here: everything held back, an unfinished character as U+FFFD.
  text_event finish();

  /// The stop string that was met. The text before it was given out; tokens that reach into it never are.
  const std::optional<std::string>& stop_string() const { return stops_.met(); }

 private:
  struct waiting_token {
    generated_token token;
    std::size_t end = 0;  ///< the text given out must be so long for the token to be complete
  };

  text_event certain(std::string text);

  std::shared_ptr<const tokenizer> tokens_;
  detokenizer detokenizer_;
  stop_matcher stops_;
  std::string unfinished_;             ///< bytes of a character that the detokenizer holds back
  std::size_t produced_ = 0;           ///< bytes of text the tokens made so far
  std::size_t given_ = 0;              ///< of them given out
  std::deque<waiting_token> waiting_;  ///< not given out yet, in order
};

}  // namespace kvern::actors
