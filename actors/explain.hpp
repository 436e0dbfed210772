#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "actors/service.hpp"
#include "model/chat/chat_template.hpp"
#include "model/tokenizer/tokenizer.hpp"

namespace kvern::actors {

struct explained_prompt {
  explanation what;  ///< `cache`: as if every line of the session were in its place
  std::vector<token_id> prompt;
};

/// Compares a prompt with the tokens that a session has, and finds where it changed: the text there, and of a chat the
/// message. `source`: the model's template, or null. `now`: Unix seconds. Pure; renders a chat that changed a few times
/// over. Errors: those of prompt_tokens.
result<explained_prompt> explain(const prompt& p, std::span<const token_id> cached, const tokenizer& tokens,
                                 const chat::chat_template* source, std::int64_t now);

}  // namespace kvern::actors
