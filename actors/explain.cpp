#include "actors/explain.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "actors/prefix_validation.hpp"
#include "actors/prompt_tokens.hpp"
#include "base/utf8.hpp"

namespace kvern::actors {
namespace {

constexpr std::int64_t shown_tokens = 6;  ///< on each side of where a prompt parts

/// The text of the tokens around `position`, control tokens shown.
std::string text_around(std::span<const token_id> ids, std::int64_t position, const tokenizer& tokens) {
  const auto begin = std::max<std::int64_t>(0, position - shown_tokens);
  const auto end = std::min<std::int64_t>(std::ssize(ids), position + shown_tokens + 1);
  return utf8_repaired(
      tokens.decode(ids.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)), true));
}

std::int64_t common_length(std::span<const token_id> a, std::span<const token_id> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

/// The first message whose text reaches beyond token `position` of the chat's tokens: the beginning of the chat up to
/// it is rendered alone, and compared. Nullopt: none does, so it is what the template adds at the end.
std::optional<std::int64_t> message_at(const chat_prompt& chat, std::span<const token_id> whole, std::int64_t position,
                                       const tokenizer& tokens, const chat::chat_template* source, std::int64_t now) {
  const auto* messages = chat.messages.as_array();
  if (messages == nullptr) return std::nullopt;
  auto beginning = chat;
  beginning.add_generation_prompt = false;
  const auto reaches = [&](std::int64_t count) {
    beginning.messages = chat::array(messages->begin(), messages->begin() + count);
    const auto rendered = render_chat_prompt(beginning, tokens, source, now);
    // A template that refuses the beginning of a chat says nothing about it: the message may be later.
    return rendered && common_length(rendered->tokens, whole) > position;
  };
  std::int64_t low = 0;
  std::int64_t high = std::ssize(*messages);
  if (!reaches(high)) return std::nullopt;
  while (high - low > 1) {
    const auto middle = low + (high - low) / 2;
    (reaches(middle) ? high : low) = middle;
  }
  return high - 1;
}

}  // namespace

result<explained_prompt> explain(const prompt& p, std::span<const token_id> cached, const tokenizer& tokens,
                                 const chat::chat_template* source, std::int64_t now) {
  auto ids = prompt_tokens(p, tokens, source, now);
  if (!ids) return std::unexpected(std::move(ids.error()));
  explained_prompt out;
  out.prompt = std::move(*ids);
  const auto match = validate_prefix(cached, out.prompt);
  out.what.cache = {match.keep, std::ssize(out.prompt) - match.keep, match.reason, match.first_divergence, 0};
  if (!match.first_divergence) return out;

  const auto position = *match.first_divergence;
  const auto at = static_cast<std::size_t>(position);
  out.what.first_divergence = divergence{position, cached[at], out.prompt[at], text_around(cached, position, tokens),
                                         text_around(out.prompt, position, tokens)};
  if (const auto* chat = std::get_if<chat_prompt>(&p))
    out.what.message = message_at(*chat, out.prompt, position, tokens, source, now);
  return out;
}

}  // namespace kvern::actors
