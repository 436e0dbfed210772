#include "ipc/completion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "ipc/errors.hpp"
#include "ipc/logprob_format.hpp"

namespace kvern::ipc {
namespace {

namespace json = boost::json;

std::vector<token_id> ids_of(std::span<const generated_token> tokens) {
  std::vector<token_id> ids;
  ids.reserve(tokens.size());
  for (const generated_token& t : tokens) ids.push_back(t.token);
  return ids;
}

}  // namespace

completion::completion(const completion_request& request, completion_head head, const service& vocabulary)
    : kind_(request.kind),
      head_(std::move(head)),
      vocabulary_(vocabulary),
      per_prompt_(static_cast<std::size_t>(request.n)),
      logprobs_(request.common.logprobs),
      stream_(request.stream),
      include_usage_(request.include_usage),
      include_progress_(request.include_progress),
      return_token_ids_(request.return_token_ids),
      choices_(request.choices()) {}

void completion::on_event(std::size_t index, generation_event event) {
  if (failure_ || index >= choices_.size() || choices_[index].ended) return;
  if (auto* refused = std::get_if<refused_event>(&event)) {
    fail(std::move(refused->why));
  } else if (auto* started = std::get_if<started_event>(&event)) {
    on(index, std::move(*started));
  } else if (const auto* progress = std::get_if<progress_event>(&event)) {
    on(index, *progress);
  } else if (auto* text = std::get_if<text_event>(&event)) {
    on(index, std::move(*text));
  } else if (auto* end = std::get_if<end_event>(&event)) {
    on(index, std::move(*end));
  }
}

void completion::fail(error why) {
  if (failure_) return;
  failure_ = std::move(why);
  if (stream_) frames_ += "data: " + error_body({*failure_, {}}) + "\n\n";
}

std::string completion::take_frames() { return std::exchange(frames_, {}); }

void completion::on(std::size_t index, started_event e) {
  choice& c = choices_[index];
  c.started = true;
  c.cache = e.cache;
  c.prompt_size = static_cast<std::int64_t>(e.prompt.size());
  if (return_token_ids_) c.prompt = std::move(e.prompt);
  if (stream_ && include_progress_) send_progress(index, 0);
}

void completion::on(std::size_t index, const progress_event& e) {
  if (stream_ && include_progress_) send_progress(index, e.processed);
}

void completion::on(std::size_t index, text_event e) {
  choice& c = choices_[index];
  c.generated += static_cast<std::int64_t>(e.tokens.size());
  if (!stream_) {
    c.text += e.text;
    if (logprobs_ >= 0 || return_token_ids_) {
      c.tokens.insert(c.tokens.end(), std::make_move_iterator(e.tokens.begin()),
                      std::make_move_iterator(e.tokens.end()));
    }
    return;
  }
  open(index);
  if (e.text.empty() && logprobs_ < 0 && !return_token_ids_) return;
  json::object o = stream_choice(index, e.text);
  if (logprobs_ >= 0) o["logprobs"] = logprobs_of(c, e.tokens);
  if (return_token_ids_) o["token_ids"] = to_json(ids_of(e.tokens));
  send({std::move(o)});
}

void completion::on(std::size_t index, end_event e) {
  if (e.reason == gpu::finish_reason::failed) {
    fail(std::move(e.why));
    return;
  }
  choice& c = choices_[index];
  if (c.prompt_size == 0) c.prompt_size = e.prompt_tokens;
  c.end = std::move(e);
  if (stream_) {
    open(index);
    json::object o = stream_choice(index, "");
    if (chat()) o["delta"] = json::object();
    o["finish_reason"] = name_of(c.end.reason);
    send({std::move(o)}, {{"kvern", extension(c.cache, c.end)}});
  }
  c.ended = true;
  if (++ended_ < choices_.size() || !stream_) return;
  if (include_usage_) {
    json::object last = envelope(head_, chat() ? "chat.completion.chunk" : "text_completion");
    last["choices"] = json::array();
    last["usage"] = to_json(usage());
    frame(last);
  }
  frames_ += "data: [DONE]\n\n";
}

/// The first chunk of a choice: its role (chat) and the prompt's ids, where asked for.
void completion::open(std::size_t index) {
  choice& c = choices_[index];
  if (c.opened) return;
  if (include_progress_) send_progress(index, c.prompt_size);
  c.opened = true;
  json::object more;
  json::object o = stream_choice(index, "");
  if (return_token_ids_) (chat() ? more : o)["prompt_token_ids"] = to_json(c.prompt);
  if (chat()) {
    o["delta"] = json::object{{"role", "assistant"}, {"content", ""}};
  } else if (!return_token_ids_) {
    return;
  }
  send({std::move(o)}, std::move(more));
}

void completion::send_progress(std::size_t index, std::int64_t processed) {
  choice& c = choices_[index];
  if (c.opened || processed <= c.progress || processed > c.prompt_size) return;
  c.progress = processed;
  json::object progress;
  if (choices_.size() > 1) progress["index"] = index;
  progress["processed"] = processed;
  progress["total"] = c.prompt_size;
  progress["percent"] = c.prompt_size > 0 ? processed * 100 / c.prompt_size : 100;
  send({}, {{"kvern", json::object{{"progress", std::move(progress)}}}});
}

json::object completion::stream_choice(std::size_t index, std::string_view text) const {
  json::object o;
  o.reserve(6);
  o["index"] = index;
  if (chat()) {
    o["delta"] = json::object{{"content", text}};
  } else {
    o["text"] = text;
  }
  o["logprobs"] = nullptr;
  o["finish_reason"] = nullptr;
  return o;
}

void completion::send(json::array choices, json::object more) {
  json::object o = envelope(head_, chat() ? "chat.completion.chunk" : "text_completion");
  o["choices"] = std::move(choices);
  if (include_usage_) o["usage"] = nullptr;
  for (auto& [key, value] : more) o[key] = std::move(value);
  frame(o);
}

void completion::frame(const json::value& v) { frames_ += "data: " + json::serialize(v) + "\n\n"; }

json::object completion::logprobs_of(choice& c, std::span<const generated_token> tokens) const {
  return chat() ? chat_logprobs(tokens, vocabulary_) : text_logprobs(tokens, vocabulary_, c.text_offset);
}

token_usage completion::usage() const {
  token_usage u;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    u.completion += choices_[i].ended ? choices_[i].end.completion_tokens : choices_[i].generated;
    u.drafted += choices_[i].end.drafted_tokens;
    u.accepted += choices_[i].end.accepted_tokens;
    // The choices of one prompt share it: it counts once.
    if (i % per_prompt_ != 0) continue;
    u.prompt += choices_[i].prompt_size;
    u.cached += choices_[i].cache.reused;
  }
  return u;
}

std::string completion::finish_reasons() const {
  std::vector<std::string_view> seen;
  for (const choice& c : choices_) {
    if (c.ended && std::ranges::find(seen, name_of(c.end.reason)) == seen.end()) seen.push_back(name_of(c.end.reason));
  }
  return fmt::format("{}", fmt::join(seen, ","));
}

json::object completion::whole_choice(std::size_t index) {
  choice& c = choices_[index];
  json::object o;
  o["index"] = index;
  if (chat()) {
    o["message"] = json::object{{"role", "assistant"}, {"content", c.text}, {"refusal", nullptr}};
  } else {
    o["text"] = c.text;
  }
  o["logprobs"] = logprobs_ >= 0 ? json::value(logprobs_of(c, c.tokens)) : json::value(nullptr);
  o["finish_reason"] = name_of(c.end.reason);
  if (return_token_ids_) {
    if (!chat()) o["prompt_token_ids"] = to_json(c.prompt);
    o["token_ids"] = to_json(ids_of(c.tokens));
  }
  if (choices_.size() > 1) o["kvern"] = extension(c.cache, c.end);
  return o;
}

std::string completion::body() {
  json::object o = envelope(head_, chat() ? "chat.completion" : "text_completion");
  json::array list;
  list.reserve(choices_.size());
  for (std::size_t i = 0; i < choices_.size(); ++i) list.push_back(whole_choice(i));
  o["choices"] = std::move(list);
  o["usage"] = to_json(usage());
  if (chat() && return_token_ids_) o["prompt_token_ids"] = to_json(choices_[0].prompt);
  o["kvern"] = extension(choices_[0].cache, choices_[0].end);
  return json::serialize(o);
}

}  // namespace kvern::ipc
