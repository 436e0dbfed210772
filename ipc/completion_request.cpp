#include "ipc/completion_request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "ipc/json_reader.hpp"
#include "ipc/overflow_fields.hpp"
#include "ipc/prompt_fields.hpp"
#include "ipc/sampling_fields.hpp"

namespace kvern::ipc {
namespace {

namespace json = boost::json;

constexpr std::int64_t most_choices = 16;
constexpr std::size_t most_generations = 128;
constexpr std::size_t most_stops = 16;
constexpr std::size_t longest_stop = 1024;
constexpr std::int64_t most_alternatives = 20;
constexpr std::size_t most_prompt_bytes = std::size_t{64} << 20;
constexpr std::int64_t most_collected_bytes = std::int64_t{256} << 20;
constexpr std::int64_t token_bytes = 64;         // of an answer that is collected, with its place in the JSON
constexpr std::int64_t alternative_bytes = 140;  // of a log-probability, with the token's text and bytes

/// Fields of OpenAI, vLLM and llama.cpp that change what is generated in ways that are not offered: ignoring one would
/// hand out an answer that breaks the caller's word.
constexpr std::array<std::string_view, 36> refused_fields{"functions",
                                                          "audio",
                                                          "web_search_options",
                                                          "suffix",
                                                          "echo",
                                                          "guided_json",
                                                          "guided_regex",
                                                          "guided_choice",
                                                          "guided_grammar",
                                                          "structured_outputs",
                                                          "grammar",
                                                          "json_schema",
                                                          "prompt_logprobs",
                                                          "use_beam_search",
                                                          "min_tokens",
                                                          "stop_token_ids",
                                                          "bad_words",
                                                          "allowed_token_ids",
                                                          "prompt_embeds",
                                                          "n_predict",
                                                          "n_keep",
                                                          "n_discard",
                                                          "num_ctx",
                                                          "mirostat",
                                                          "dry_multiplier",
                                                          "xtc_probability",
                                                          "dynatemp_range",
                                                          "image_data",
                                                          "lora",
                                                          "truncate_prompt_tokens",
                                                          "documents",
                                                          "verbosity",
                                                          "include_stop_str_in_output",
                                                          "min_keep",
                                                          "chat_template",
                                                          "top_n_sigma"};

void read_format(fields& body) {
  if (const json::object* format = body.object("response_format")) {
    fields f(*format, "response_format.");
    const auto type = f.string("type");
    if (type != "text") {
      body.fail("response_format", "can only be of type \"text\" here; output cannot be constrained", "unsupported");
    }
  }
  if (const json::value* call = body.find("function_call")) {
    if (!call->is_string() || (call->get_string() != "none" && call->get_string() != "auto")) {
      body.fail("function_call", "can only be \"none\" or \"auto\" here", "unsupported");
    }
  }
  if (body.boolean("skip_special_tokens") == false) {
    body.fail("skip_special_tokens", "cannot be false here; ask for return_token_ids", "unsupported");
  }
  if (const json::array* modalities = body.array("modalities")) {
    for (const json::value& m : *modalities) {
      if (!m.is_string() || m.get_string() != "text") {
        body.fail("modalities", "can only be [\"text\"] here", "unsupported");
      }
    }
  }
}

void read_stop(fields& body, std::vector<std::string>& stop) {
  const json::value* v = body.find("stop");
  if (v == nullptr) return;
  const auto take = [&](const json::value& s) {
    if (!s.is_string()) {
      body.fail("stop", "must be a string or an array of strings");
    } else if (s.get_string().empty() || s.get_string().size() > longest_stop) {
      body.fail("stop", fmt::format("strings must have 1 to {} bytes", longest_stop));
    } else {
      stop.emplace_back(s.get_string());
    }
  };
  const json::array* list = v->if_array();
  if (list == nullptr) {
    take(*v);
  } else if (list->size() > most_stops) {
    body.fail("stop", fmt::format("can hold at most {} strings", most_stops));
  } else {
    for (const json::value& s : *list) take(s);
  }
}

/// max_tokens as clients send it: absent, null or -1 mean until the context is full. Of the two names the smaller
/// number counts.
std::optional<std::int64_t> read_max_tokens(fields& body) {
  std::optional<std::int64_t> limit;
  for (const std::string_view name : {"max_tokens", "max_completion_tokens"}) {
    const auto n = body.integer(name, -1, std::numeric_limits<std::int64_t>::max());
    if (n == 0) body.fail(name, "must be at least 1, or -1 for no limit");
    if (n && *n > 0) limit = std::min(*n, limit.value_or(*n));
  }
  return limit;
}

std::int32_t read_logprobs(fields& body, completion_kind kind) {
  if (kind == completion_kind::text) {
    return static_cast<std::int32_t>(body.integer("logprobs", 0, most_alternatives).value_or(-1));
  }
  const bool wanted = body.boolean("logprobs").value_or(false);
  const auto top = body.integer("top_logprobs", 0, most_alternatives);
  if (top && *top > 0 && !wanted) body.fail("top_logprobs", "needs logprobs to be true");
  return wanted ? static_cast<std::int32_t>(top.value_or(0)) : -1;
}

void read_stream(fields& body, completion_request& r) {
  r.stream = body.boolean("stream").value_or(false);
  const json::object* options = body.object("stream_options");
  if (options == nullptr) return;
  if (!r.stream) {
    body.fail("stream_options", "is only allowed when stream is true");
    return;
  }
  fields f(*options, "stream_options.");
  r.include_usage = f.boolean("include_usage").value_or(false);
  r.include_progress = f.boolean("include_progress").value_or(false);
  if (f.failure()) {
    const std::string& param = f.failure()->param;
    body.fail(param, f.failure()->why.message.substr(param.size() + 1));
  }
}

/// An answer that does not stream is held whole until its end: what it may grow to has to be affordable. A session that
/// forgets can say more than its context holds.
void check_collected_size(fields& body, const completion_request& r, std::int64_t context) {
  if (r.stream) return;
  const bool may_rotate =
      r.common.overflow ? *r.common.overflow == gpu::overflow_policy::rotate : !r.common.session.empty();
  constexpr std::int64_t most = most_collected_bytes;  // more tokens than bytes: refused in any case
  const auto wanted = std::min(r.common.max_tokens.value_or(context), most);
  const auto tokens = may_rotate ? wanted : std::min(wanted, context);
  const auto bytes = static_cast<std::int64_t>(r.choices()) * tokens *
                     (token_bytes + alternative_bytes * (std::int64_t{r.common.logprobs} + 1));
  if (bytes > most_collected_bytes) {
    body.fail("max_tokens",
              fmt::format("allows an answer of about {} MiB, and one that does not stream may have {}; ask "
                          "for fewer tokens, choices or logprobs, or stream",
                          bytes >> 20, most_collected_bytes >> 20));
  }
}

void check_amount(fields& body, const completion_request& r) {
  if (r.choices() > most_generations) {
    body.fail(r.n > 1 ? "n" : "prompt",
              fmt::format("asks for {} choices; the limit is {}", r.choices(), most_generations));
  }
  if (!r.common.session.empty() && r.choices() > 1) {
    body.fail("session", "takes one turn at a time; ask for one choice");
  }
  std::size_t bytes = 0;
  for (const kvern::prompt& p : r.prompts) {
    if (const auto* text = std::get_if<text_prompt>(&p)) bytes += text->text.size();
    if (const auto* ids = std::get_if<std::vector<token_id>>(&p)) bytes += ids->size() * sizeof(token_id);
  }
  if (bytes > most_prompt_bytes / static_cast<std::size_t>(r.n)) {
    body.fail("prompt", "is too large for so many choices; ask for fewer");
  }
}

}  // namespace

std::string_view path_of(completion_kind kind) {
  return kind == completion_kind::chat ? "/v1/chat/completions" : "/v1/completions";
}

bool names_model(std::string_view name, const model_info& model) {
  return name == model.id || (name.ends_with(".gguf") && name.substr(0, name.size() - 5) == model.id);
}

generation_request completion_request::choice(std::size_t index) const {
  const auto count = static_cast<std::size_t>(n);
  generation_request request = common;
  request.prompt = prompts[index / count];
  if (request.sampling.seed) *request.sampling.seed += index % count;
  return request;
}

parsed<completion_request> parse_completion(completion_kind kind, std::string_view text, const model_info& model) {
  const auto document = parse_json_object(text);
  if (!document) return std::unexpected(document.error());
  fields body(document->root().get_object());

  completion_request r;
  r.kind = kind;
  if (const auto name = body.string("model"); name && !names_model(*name, model)) {
    body.fail("model", fmt::format("is not served here; use \"{}\" or leave it out", model.id), "model_not_found");
  }
  body.refuse(refused_fields);
  read_format(body);
  r.n = static_cast<std::int32_t>(body.integer("n", 1, most_choices).value_or(1));
  if (const auto best = body.integer("best_of", 1, most_choices); best && *best != r.n) {
    body.fail("best_of", "must equal n here; candidates are not ranked", "unsupported");
  }
  r.common.session = body.string("session").value_or("");
  r.common.sampling = read_sampling(body, model.vocab);
  r.common.max_tokens = read_max_tokens(body);
  read_stop(body, r.common.stop);
  r.common.overflow = read_overflow(body);
  r.common.keep = read_keep(body, r.common.overflow, r.common.session.empty());
  r.common.exclude_tail = body.integer("cache_exclude_tail", 0, std::numeric_limits<std::int64_t>::max()).value_or(0);
  r.common.prompt_lookup = body.boolean("prompt_lookup");
  r.common.ignore_eos = body.boolean("ignore_eos").value_or(false);
  r.common.logprobs = read_logprobs(body, kind);
  r.return_token_ids = body.boolean("return_token_ids").value_or(false);
  read_stream(body, r);
  // The prompt is the costly part: not for a request that is refused anyway.
  if (!body.failure()) {
    if (kind == completion_kind::chat) {
      r.prompts.emplace_back(read_chat(body));
    } else {
      r.prompts = read_prompts(body, model.vocab);
    }
    check_amount(body, r);
    check_collected_size(body, r, model.context);
  }
  if (body.failure()) return std::unexpected(*body.failure());
  return r;
}

}  // namespace kvern::ipc
