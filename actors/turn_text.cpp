#include "actors/turn_text.hpp"

#include <utility>

#include "base/utf8.hpp"

namespace kvern::actors {

turn_text::turn_text(std::shared_ptr<const tokenizer> tokens, stop_matcher stops)
    : tokens_(tokens), detokenizer_(std::move(tokens)), stops_(std::move(stops)) {}

text_event turn_text::push(token_id token, token_logprob logprob) {
  if (stops_.met()) return {};
  auto bytes = tokens_->piece(token, false);
  auto text = detokenizer_.push(token);
  unfinished_ += bytes;
  unfinished_.erase(0, unfinished_.size() - utf8_incomplete_tail(unfinished_));
  produced_ += text.size();
  // A token that begins a character is complete when that character is.
  const std::size_t end = produced_ + (unfinished_.empty() ? 0 : 1);
  waiting_.push_back({{token, std::move(bytes), std::move(logprob)}, end});
  return certain(stops_.push(text));
}

text_event turn_text::finish() {
  if (stops_.met()) return {};
  const auto rest = detokenizer_.flush();
  produced_ += rest.size();
  auto text = stops_.push(rest);
  text += stops_.finish();
  return certain(std::move(text));
}

text_event turn_text::certain(std::string text) {
  text_event event;
  given_ += text.size();
  event.text = std::move(text);
  while (!waiting_.empty() && waiting_.front().end <= given_) {
    event.tokens.push_back(std::move(waiting_.front().token));
    waiting_.pop_front();
  }
  return event;
}

}  // namespace kvern::actors
