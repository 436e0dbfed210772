#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <span>

#include "actors/service.hpp"
#include "ipc/token_pieces.hpp"

namespace kvern::ipc {

/// Chat shape: `{"content":[{"token","logprob","bytes","top_logprobs":[...]}],"refusal":null}`.
boost::json::object chat_logprobs(std::span<const generated_token> tokens, const token_pieces& pieces);

/// Completions shape: `{"tokens","token_logprobs","top_logprobs","text_offset"}`; offsets in characters of the answer.
/// `offset`: the characters before these tokens; it is advanced.
boost::json::object text_logprobs(std::span<const generated_token> tokens, const token_pieces& pieces,
                                  std::int64_t& offset);

/// Ids of the alternatives of `tokens`, whose bytes the shapes above show.
std::vector<token_id> alternatives_of(std::span<const generated_token> tokens);

}  // namespace kvern::ipc
