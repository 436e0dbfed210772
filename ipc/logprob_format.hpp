#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <span>

#include "actors/service.hpp"

namespace kvern::ipc {

/// Chat shape: `{"content":[{"token","logprob","bytes","top_logprobs":[...]}],"refusal":null}`.
/// `vocabulary` knows the bytes of tokens; control tokens are shown as their text.
boost::json::object chat_logprobs(std::span<const generated_token> tokens, const service& vocabulary);

/// Completions shape: `{"tokens","token_logprobs","top_logprobs","text_offset"}`; offsets in characters of the answer.
/// `offset`: the characters before these tokens; it is advanced.
boost::json::object text_logprobs(std::span<const generated_token> tokens, const service& vocabulary,
                                  std::int64_t& offset);

}  // namespace kvern::ipc
