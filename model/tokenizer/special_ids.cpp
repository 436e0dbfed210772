#include "model/tokenizer/special_ids.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string_view>

namespace kvern {
namespace {

using std::string_view;

/// Control tokens that end an answer.
constexpr auto end_texts = std::to_array<string_view>({
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|calls|>",
    "<|flush|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<\uFF5Cend\u2581of\u2581sentence\uFF5C>",
    "[e~[",
    // Fill in the middle: padding, the next repository and the next file.
    "<|fim_pad|>",
    "<fim-pad>",
    "<fim_pad>",
    "<PAD>",
    "[PAD]",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<fim-repo>",
    "<REPO>",
    "<reponame>",
    "<|file_sep|>",
});

/// Control tokens by their text that end nothing.
constexpr auto control_texts = std::to_array<string_view>({
    "<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>",    "<\uFF5Cfim\u2581begin\uFF5C>",
    "<PRE>",          "\u2581<PRE>",  "<|code_prefix|>", "<|prefix|>",
    "<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>",    "<\uFF5Cfim\u2581hole\uFF5C>",
    "<SUF>",          "\u2581<SUF>",  "<|code_suffix|>", "<|suffix|>",
    "<|fim_middle|>", "<fim-middle>", "<fim_middle>",    "<\uFF5Cfim\u2581end\uFF5C>",
    "<MID>",          "\u2581<MID>",  "<|code_middle|>", "<|middle|>",
});

/// Whether a role that the file does not state may fall to `id`: it would end answers, so a plain word must not.
bool fits_role(token_id id, const vocabulary& words) {
  if (!words.contains(id)) return false;
  return !words.states_kinds() || words.kind(id) == token_kind::control || words.kind(id) == token_kind::unknown;
}

result<std::optional<token_id>> stated_id(const gguf_file& file, string_view key, std::optional<token_id> otherwise,
                                          const vocabulary& words) {
  if (otherwise && !fits_role(*otherwise, words)) otherwise.reset();
  if (!file.has(key)) return otherwise;
  const auto id = file.find_uint(key);
  if (!id) return std::unexpected(id.error());
  if (!id->has_value()) return otherwise;
  if (**id == std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  if (**id >= static_cast<std::uint64_t>(words.size())) {
    return fail("model_invalid", fmt::format("{}: {} is {}, but the vocabulary has {} tokens; convert the model again",
                                             file.file_name(), key, **id, words.size()));
  }
  return static_cast<token_id>(**id);
}

result<bool> stated_flag(const gguf_file& file, string_view key, bool otherwise) {
  const auto flag = file.find_bool(key);
  if (!flag) return std::unexpected(flag.error());
  return flag->value_or(otherwise);
}

/// Ends an answer in most models, but is an ordinary word or a mere separator beside these other tokens.
bool is_no_end_here(string_view text, const vocabulary& words) {
  const auto has = [&](string_view other) { return words.find(other) != no_token; };
  if (text == "<|end|>") return (has("<|return|>") && has("<|call|>")) || (has("<|calls|>") && has("<|flush|>"));
  if (text == "</s>") return has("<|tool_response>");
  return false;
}

void classify_by_text(vocabulary& words, std::vector<token_id>& ends) {
  for (const string_view text : control_texts) {
    if (const token_id id = words.find(text); id != no_token) words.set_kind(id, token_kind::control);
  }
  for (const string_view text : end_texts) {
    const token_id id = words.find(text);
    if (id == no_token) continue;
    if (!is_no_end_here(text, words)) {
      words.set_kind(id, token_kind::control);
      ends.push_back(id);
    } else if (text == "</s>") {
      words.set_kind(id, token_kind::normal);
    }
  }
}

}  // namespace

result<special_ids> resolve_special_ids(const gguf_file& file, const special_defaults& defaults, vocabulary& words) {
  special_ids ids;
  classify_by_text(words, ids.ends);
  const struct {
    string_view key;
    std::optional<token_id> otherwise;
    std::optional<token_id>* role;
    bool ends;
  } roles[] = {
      {"tokenizer.ggml.bos_token_id", defaults.bos, &ids.bos, false},
      {"tokenizer.ggml.eos_token_id", defaults.eos, &ids.eos, true},
      {"tokenizer.ggml.unknown_token_id", defaults.unknown, &ids.unknown, false},
      {"tokenizer.ggml.eot_token_id", std::nullopt, nullptr, true},
      {"tokenizer.ggml.eom_token_id", std::nullopt, nullptr, true},
      {"tokenizer.ggml.fim_pad_token_id", std::nullopt, nullptr, true},
      {"tokenizer.ggml.fim_rep_token_id", std::nullopt, nullptr, true},
      {"tokenizer.ggml.fim_sep_token_id", std::nullopt, nullptr, true},
  };
  for (const auto& role : roles) {
    const auto id = stated_id(file, role.key, role.otherwise, words);
    if (!id) return std::unexpected(id.error());
    if (role.role != nullptr) *role.role = *id;
    if (role.ends && id->has_value()) ids.ends.push_back(**id);
  }
  if (ids.unknown && words.kind(*ids.unknown) == token_kind::control) ids.unknown.reset();
  std::ranges::sort(ids.ends);
  const auto repeated = std::ranges::unique(ids.ends);
  ids.ends.erase(repeated.begin(), repeated.end());

  const auto add_bos = stated_flag(file, "tokenizer.ggml.add_bos_token", defaults.add_bos);
  if (!add_bos) return std::unexpected(add_bos.error());
  const auto add_eos = stated_flag(file, "tokenizer.ggml.add_eos_token", defaults.add_eos);
  if (!add_eos) return std::unexpected(add_eos.error());
  ids.add_bos = *add_bos && ids.bos.has_value();
  ids.add_eos = *add_eos && ids.eos.has_value();
  return ids;
}

}  // namespace kvern
