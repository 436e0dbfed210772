#pragma once

#include <vector>

#include "actors/service.hpp"
#include "ipc/json_reader.hpp"

namespace kvern::ipc {

/// The prompts of a /v1/completions request: `prompt` as a string, strings, token ids, or arrays of token ids; with
/// `add_special_tokens` (default true) and `parse_special` (default false). Wrong fields are recorded in `body`.
std::vector<kvern::prompt> read_prompts(fields& body, std::int64_t vocab);

/// The chat of a request: messages, tools (left out when tool_choice is "none"), chat_template_kwargs,
/// reasoning_effort as one of them, add_generation_prompt, continue_final_message. Wrong fields are recorded in `body`.
chat_prompt read_chat(fields& body);

/// Token ids below `vocab`; an error is recorded under `name`.
std::vector<token_id> read_tokens(fields& body, std::string_view name, const boost::json::array& ids,
                                  std::int64_t vocab);

}  // namespace kvern::ipc
