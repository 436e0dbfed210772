#include "actors/prompt_tokens.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/utf8.hpp"
#include "model/chat/chat_prompt.hpp"

namespace kvern::actors {
namespace {

result<void> check_range(const std::vector<token_id>& ids, const tokenizer& tokens) {
  const auto vocab = tokens.vocab_size();
  const auto bad = std::ranges::find_if(ids, [&](token_id id) { return id < 0 || id >= vocab; });
  if (bad == ids.end()) return {};
  return fail("invalid_request", fmt::format("Token {} at position {} is not in the vocabulary; ids are 0 to {}.", *bad,
                                             bad - ids.begin(), vocab - 1));
}

error as_template_error(const error& why) {
  const bool says_it_itself = why.code == "template_raised" || why.code == "template_error";
  if (says_it_itself) return {"template_error", why.message};
  return {"template_error", fmt::format("The chat template could not be rendered ({}): {}", why.code, why.message)};
}

result<std::vector<token_id>> not_empty(std::vector<token_id> ids, const tokenizer& tokens) {
  if (!ids.empty()) return ids;
  if (const auto bos = tokens.bos()) return std::vector<token_id>{*bos};
  return fail("invalid_request", "The prompt is empty and the model has no BOS token to begin with; send some text.");
}

std::string_view text_of(const tokenizer& tokens, std::optional<token_id> id) {
  return id ? tokens.text(*id) : std::string_view();
}

/// Bytes of all strings in a value. Client values are bounded in depth by the protocol's parser; the walk does not
/// rely on it.
std::size_t text_bytes(const chat::value& root) {
  std::size_t bytes = 0;
  std::vector<const chat::value*> open{&root};
  while (!open.empty()) {
    const auto* v = open.back();
    open.pop_back();
    if (const auto* text = v->as_string()) bytes += text->size();
    if (const auto* items = v->as_array()) {
      bytes += items->size();
      for (const auto& item : *items) open.push_back(&item);
    }
    if (const auto* fields = v->as_object()) {
      for (const auto& [key, field] : *fields) {
        bytes += key.size();
        open.push_back(&field);
      }
    }
  }
  return bytes;
}

}  // namespace

std::vector<token_id> tokenize_text(const text_prompt& text, const tokenizer& tokens) {
  const std::array segments{text_segment{text.text, text.parse_special}};
  auto ids = tokens.encode(segments, text.add_special);
  const bool twice =
      text.add_special && tokens.adds_bos() && ids.size() > 1 && ids[0] == tokens.bos() && ids[1] == ids[0];
  if (twice) ids.erase(ids.begin());
  return ids;
}

result<service::rendered> render_chat_prompt(const chat_prompt& chat, const tokenizer& tokens,
                                             const chat::chat_template* source, std::int64_t now) {
  if (!source) {
    return fail("no_chat_template", "The model's file has no chat template; send a text prompt instead of messages.");
  }
  auto parts = chat::render_chat(*source, chat.messages, chat.tools, chat.arguments, chat.add_generation_prompt,
                                 text_of(tokens, tokens.bos()), text_of(tokens, tokens.eos()), now);
  if (!parts) return std::unexpected(as_template_error(parts.error()));

  service::rendered out;
  std::vector<text_segment> segments;
  segments.reserve(parts->size());
  for (auto& part : *parts) {
    out.text += part.text;
    segments.push_back({std::move(part.text), part.trusted});
  }
  // Most templates write BOS themselves; whether this one did shows in the tokens.
  out.tokens = tokens.encode(segments, false);
  const auto bos = tokens.bos();
  const bool begins_with_bos = bos && !out.tokens.empty() && out.tokens.front() == *bos;
  if (tokens.adds_bos() && bos && !begins_with_bos) out.tokens.insert(out.tokens.begin(), *bos);
  return out;
}

result<std::vector<token_id>> prompt_tokens(const prompt& p, const tokenizer& tokens, const chat::chat_template* source,
                                            std::int64_t now) {
  if (const auto* text = std::get_if<text_prompt>(&p)) return not_empty(tokenize_text(*text, tokens), tokens);
  if (const auto* ids = std::get_if<std::vector<token_id>>(&p)) {
    if (auto checked = check_range(*ids, tokens); !checked) return std::unexpected(checked.error());
    return not_empty(*ids, tokens);
  }
  auto rendered = render_chat_prompt(std::get<chat_prompt>(p), tokens, source, now);
  if (!rendered) return std::unexpected(rendered.error());
  return not_empty(std::move(rendered->tokens), tokens);
}

result<std::string> detokenize(const std::vector<token_id>& ids, const tokenizer& tokens) {
  if (auto checked = check_range(ids, tokens); !checked) return std::unexpected(checked.error());
  return utf8_repaired(tokens.decode(ids, true));
}

std::size_t prompt_weight(const prompt& p) {
  if (const auto* text = std::get_if<text_prompt>(&p)) return text->text.size();
  if (const auto* ids = std::get_if<std::vector<token_id>>(&p)) return ids->size();
  const auto& chat = std::get<chat_prompt>(p);
  return text_bytes(chat.messages) + text_bytes(chat.tools) + text_bytes(chat.arguments);
}

}  // namespace kvern::actors
