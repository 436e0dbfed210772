#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "actors/service.hpp"
#include "model/chat/chat_template.hpp"
#include "model/tokenizer/tokenizer.hpp"

/// From what a client sent to the tokens of a prompt. Pure; safe from any thread; linear in the prompt.
namespace kvern::actors {

/// The tokens of a text, with exactly one BOS where the model's file wants one, even if the text brings its own.
std::vector<token_id> tokenize_text(const text_prompt& text, const tokenizer& tokens);

/// Renders messages with the model's template (null: it has none) and tokenizes the result: what the template wrote may
/// be control tokens, what the client wrote never is. `now`: Unix seconds.
/// Errors: `no_chat_template`, `template_error`, `invalid_request`.
result<service::rendered> render_chat_prompt(const chat_prompt& chat, const tokenizer& tokens,
                                             const chat::chat_template* source, std::int64_t now);

/// The tokens of any prompt, at least one: an empty prompt is BOS alone.
/// Errors: `invalid_request` (a token out of range; an empty prompt for a model without BOS), those of
/// render_chat_prompt.
result<std::vector<token_id>> prompt_tokens(const prompt& p, const tokenizer& tokens, const chat::chat_template* source,
                                            std::int64_t now);

/// The text of a sequence as valid UTF-8, control tokens shown. Errors: `invalid_request` (a token out of range).
result<std::string> detokenize(const std::vector<token_id>& ids, const tokenizer& tokens);

/// About how much work a prompt is: bytes of text, or tokens.
std::size_t prompt_weight(const prompt& p);

}  // namespace kvern::actors
