#include "actors/running_turn.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "actors/errors.hpp"

namespace kvern::actors {
namespace {

constexpr std::int32_t most_alternatives = 20;

result<void> check(const generation_request& request) {
  if (request.max_tokens && *request.max_tokens < 1) {
    return fail("invalid_request",
                fmt::format("max_tokens is {}; it must be at least 1, or absent for no limit.", *request.max_tokens));
  }
  if (request.logprobs < -1 || request.logprobs > most_alternatives) {
    return fail("invalid_request", fmt::format("logprobs asks for {} alternatives; it can be 0 to {}.",
                                               request.logprobs, most_alternatives));
  }
  if (request.keep && *request.keep < 0) {
    return fail("invalid_request", fmt::format("keep is {}; it must be 0 or more.", *request.keep));
  }
  if (request.exclude_tail < 0) {
    return fail("invalid_request",
                fmt::format("cache_exclude_tail is {}; it must be 0 or more.", request.exclude_tail));
  }
  return {};
}

}  // namespace

result<std::unique_ptr<running_turn>> running_turn::create(pending_request& request,
                                                           std::shared_ptr<const tokenizer> tokens) {
  if (auto checked = check(request.request); !checked) return std::unexpected(checked.error());
  auto stops = stop_matcher::create(std::move(request.request.stop));
  if (!stops) return std::unexpected(stops.error());
  return std::unique_ptr<running_turn>(new running_turn(std::move(request), std::move(*stops), std::move(tokens)));
}

running_turn::running_turn(pending_request request, stop_matcher stops, std::shared_ptr<const tokenizer> tokens)
    : request_(std::move(request)), text_(std::move(tokens), std::move(stops)) {}

result<gpu::turn> running_turn::plan(std::vector<token_id> prompt, const session_history& history, gpu::turn_id id,
                                     gpu::sequence_id sequence, std::int64_t context) {
  const auto& wanted = request_.request;
  const auto overflow = wanted.overflow.value_or(history.settings.overflow);
  if (wanted.keep && overflow != gpu::overflow_policy::rotate) {
    return kvern::fail("invalid_request",
                       "keep says what stays when lines are forgotten; ask for overflow \"rotate\" with it.");
  }
  id_ = id;
  match_ = validate_prefix(history.tokens, prompt);
  prompt_ = std::move(prompt);
  prompt_tokens_ = static_cast<std::int64_t>(prompt_.size());

  gpu::turn turn;
  turn.id = id;
  turn.sequence = sequence;
  turn.tenant = request_.tenant;
  turn.keep = match_.keep;
  turn.prompt = prompt_;
  turn.sampling = std::move(request_.request.sampling);
  turn.max_tokens = request_.request.max_tokens.value_or(-1);
  turn.ignore_eos = request_.request.ignore_eos;
  turn.logprobs = request_.request.logprobs;
  turn.overflow = overflow;
  if (overflow == gpu::overflow_policy::rotate) {
    turn.rotate_keep = wanted.keep.value_or(history.settings.keep);
    if (turn.max_tokens < 0) turn.max_tokens = context;
  }
  keeps_answer_ = wanted.exclude_tail == 0;
  tail_ = std::min(wanted.exclude_tail, prompt_tokens_);
  turn.exclude_tail = tail_;
  turn.prompt_lookup = wanted.prompt_lookup;
  return turn;
}

running_turn::verdict running_turn::take(gpu::turn_output& output, session_history& history, std::int64_t now) {
  history.last_used = now;
  const auto said = std::visit([&](auto& what) { return on(what, history); }, output.what);
  if (said == verdict::over) return said;
  const bool unwanted = said == verdict::cancel || request_.events.closed();
  return unwanted && cancel(history) ? verdict::cancel : verdict::goes_on;
}

bool running_turn::cancel(const session_history& history) {
  if (std::exchange(cancelled_, true)) return false;
  cut_ = std::ssize(history.tokens);
  return true;
}

running_turn::verdict running_turn::on(gpu::turn_started& started, session_history& history) {
  started_event event;
  event.cache = {started.reused, prompt_tokens_ - started.reused, match_.reason, match_.first_divergence,
                 started.shared};
  event.prompt = prompt_;
  told_ = prompt_tokens_;
  history.tokens = std::exchange(prompt_, {});
  history.tokens.resize(static_cast<std::size_t>(prompt_tokens_ - tail_));
  history.committed = started.reused;
  history.turns += 1;
  history.last_validation = event.cache;
  request_.events.start(std::move(event));
  return verdict::goes_on;
}

running_turn::verdict running_turn::on(gpu::turn_progress& progress, session_history& history) {
  history.committed = std::min(progress.processed, std::ssize(history.tokens));
  request_.events.progress({progress.processed, progress.total});
  return verdict::goes_on;
}

running_turn::verdict running_turn::on(gpu::turn_token& token, session_history& history) {
  told_ += 1;
  // The worker may be a few tokens ahead of a stop string or of a client that wants no more.
  if (cancelled_) return verdict::goes_on;
  completion_tokens_ += 1;
  accepted_tokens_ += token.guessed ? 1 : 0;
  if (token.end_of_generation && !request_.request.ignore_eos) return verdict::goes_on;
  deliver(text_.push(token.token, std::move(token.logprob)), history);
  return text_.stop_string() ? verdict::cancel : verdict::goes_on;
}

running_turn::verdict running_turn::on(gpu::turn_ended& ended, session_history& history) {
  if (ended.reason == gpu::finish_reason::failed && !request_.events.started()) {
    fail(std::move(ended.why));
    return verdict::over;
  }
  const bool finished = ended.reason == gpu::finish_reason::stop || ended.reason == gpu::finish_reason::length;
  if (finished && !cancelled_) deliver(text_.finish(), history);
  // A prompt whose start was not known yet when the turn was cancelled.
  if (ended.reason == gpu::finish_reason::cancelled && cancelled_ && std::ssize(history.tokens) > cut_)
    history.tokens.resize(static_cast<std::size_t>(cut_));
  history.committed = std::min(ended.committed, std::ssize(history.tokens));
  history.forgotten = ended.forgotten;
  end_event event;
  if (ended.forgotten > 0) {
    event.overflow = {gpu::overflow_policy::rotate, ended.rotate_keep, ended.forgotten};
  } else if (ended.context_full) {
    event.overflow = {gpu::overflow_policy::stop, 0, 0};
  }
  event.reason = finished && cancelled_ ? gpu::finish_reason::cancelled : ended.reason;
  event.why = std::move(ended.why);
  event.drafted_tokens = ended.drafted;
  event.accepted_tokens = accepted_tokens_;
  event.queued_ms = ended.queued_ms;
  event.prompt_ms = ended.prompt_ms;
  event.generate_ms = ended.generate_ms;
  end(std::move(event));
  return verdict::over;
}

bool running_turn::deliver(text_event event, session_history& history) {
  if (event.text.empty() && event.tokens.empty()) return true;
  std::vector<token_id> sent;
  sent.reserve(event.tokens.size());
  for (const auto& token : event.tokens) sent.push_back(token.token);
  if (!request_.events.text(std::move(event))) return false;
  if (keeps_answer_) history.tokens.insert(history.tokens.end(), sent.begin(), sent.end());
  return true;
}

void running_turn::fail(error why) {
  if (!request_.events.started()) {
    request_.events.refuse(std::move(why));
    return;
  }
  end_event event;
  event.reason = gpu::finish_reason::failed;
  event.why = std::move(why);
  end(std::move(event));
}

void running_turn::cancelled() {
  end_event event;
  event.reason = gpu::finish_reason::cancelled;
  end(std::move(event));
}

void running_turn::end(end_event event) {
  if (text_.stop_string()) {
    event.reason = gpu::finish_reason::stop;
    event.stop_string = *text_.stop_string();
    event.why = {};
  }
  event.prompt_tokens = prompt_tokens_;
  event.completion_tokens = completion_tokens_;
  // A turn cancelled before it began still tells its client in the order every client expects.
  if (!request_.events.started())
    request_.events.start({std::exchange(prompt_, {}), {0, 0, match_.reason, match_.first_divergence}});
  request_.events.end(std::move(event));
}

}  // namespace kvern::actors
