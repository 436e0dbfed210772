#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "model/chat/chat_template.hpp"
#include "model/chat/value.hpp"

namespace kvern::chat {

/// Renders a conversation as a prompt. `messages` is an array of objects, `tools` an array or null, `arguments` an
/// object of further variables or null (it cannot replace messages, tools, bos_token, eos_token or
/// add_generation_prompt). `bos` and `eos` come out trusted; everything else of the values is untrusted. `now` as in
/// `chat_template::render`. Thread-safe.
///
/// What a template cannot take is given in a form that it can: a content of parts as one text (parts joined by a
/// newline) to a template that does not read parts, and an empty text for a null content that it would print as None.
///
/// The last message being the assistant's is continued: the prompt ends with that message's content (white space around
/// it dropped at the end), without closing mark and without a new turn, whatever `add_generation_prompt` says. An empty
/// one is the beginning of the assistant's turn.
///
/// Errors: those of rendering; `template_error` when the messages are no array of objects, when a content holds other
/// parts than text and the template takes text only, or when the last message cannot be continued.
result<std::vector<rendered_part>> render_chat(const chat_template& tmpl, const value& messages, const value& tools,
                                               const value& arguments, bool add_generation_prompt, std::string_view bos,
                                               std::string_view eos, std::int64_t now);

/// Renders the branches a template has to have: a plain turn, tools, a tool's result. Errors: of the plain turn (but
/// not `template_raised`, which is the template's own answer), and `template_limit` of any.
result<void> probe(const chat_template& tmpl);

/// See `chat_template::traits`.
template_traits find_traits(const chat_template& tmpl);

}  // namespace kvern::chat
