#include "model/tokenizer/tokenizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "model/tokenizer/bpe_tokenizer.hpp"
#include "model/tokenizer/special_ids.hpp"
#include "model/tokenizer/split_style.hpp"
#include "model/tokenizer/spm_tokenizer.hpp"
#include "model/tokenizer/vocabulary.hpp"

namespace kvern {
namespace {

/// A name from the file as a message may show it.
std::string shown(std::string_view name) {
  constexpr std::size_t most = 40;
  std::string out(name.substr(0, most));
  std::ranges::replace_if(
      out, [](char c) { return c < ' ' || c > '~'; }, '?');
  return name.size() > most ? out + "..." : out;
}

/// Phi-3's special tokens swallow the white space to their right, which no key of the file says.
result<std::vector<token_id>> right_strip(const gguf_file& file, const vocabulary& words) {
  const auto name = file.find_string("general.name");
  if (!name) return std::unexpected(name.error());
  std::string lower(name->value_or(""));
  std::ranges::transform(lower, lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  std::vector<token_id> ids;
  if (!lower.contains("phi-3") && !lower.contains("phi3")) return ids;
  for (token_id id = 0; id < words.size(); ++id) {
    const token_kind kind = words.kind(id);
    const bool special = kind == token_kind::control || kind == token_kind::unknown || kind == token_kind::user_defined;
    const std::string_view text = words.text(id);
    if (special && text != "<unk>" && text != "<s>" && text != "<|endoftext|>") ids.push_back(id);
  }
  return ids;
}

struct common_parts {
  vocabulary words;
  special_ids specials;
  std::vector<token_id> right_strip;
};

result<common_parts> read_common(const gguf_file& file, const special_defaults& defaults) {
  auto words = vocabulary::load(file);
  if (!words) return std::unexpected(words.error());
  auto specials = resolve_special_ids(file, defaults, *words);
  if (!specials) return std::unexpected(specials.error());
  auto strip = right_strip(file, *words);
  if (!strip) return std::unexpected(strip.error());
  return common_parts{std::move(*words), std::move(*specials), std::move(*strip)};
}

result<std::shared_ptr<const tokenizer>> create_bpe(const gguf_file& file, const split_style& style,
                                                    bpe_letters letters, const special_defaults& defaults) {
  auto common = read_common(file, defaults);
  if (!common) return std::unexpected(common.error());
  auto merges = file.find_strings("tokenizer.ggml.merges");
  if (!merges) return std::unexpected(merges.error());
  if (!merges->has_value()) {
    return fail("model_invalid",
                fmt::format("{} has no key tokenizer.ggml.merges, without which its BPE tokenizer cannot work; convert "
                            "the model again",
                            file.file_name()));
  }
  auto splitter = pretokenizer::create(style.steps);
  if (!splitter) return std::unexpected(splitter.error());
  return std::make_shared<const bpe_tokenizer>(bpe_tokenizer::parts{.words = std::move(common->words),
                                                                    .specials = std::move(common->specials),
                                                                    .right_strip = std::move(common->right_strip),
                                                                    .splitter = std::move(*splitter),
                                                                    .letters = letters,
                                                                    .ignore_merges = style.ignore_merges},
                                               **merges);
}

result<std::shared_ptr<const tokenizer>> create_byte_bpe(const gguf_file& file) {
  const auto pre = file.find_string("tokenizer.ggml.pre");
  if (!pre) return std::unexpected(pre.error());
  const split_style* style = find_split_style(pre->value_or(""));
  if (style == nullptr) {
    return fail("model_unsupported",
                fmt::format("{}: the pre-tokenizer '{}' (tokenizer.ggml.pre) is not known here, and another would cut "
                            "text wrongly; use a model with a known one, or a newer version",
                            file.file_name(), shown(**pre)));
  }
  special_defaults defaults{.bos = 11, .eos = 11, .add_bos = style->add_bos};
  if (!style->default_bos) defaults.bos.reset();
  return create_bpe(file, *style, bpe_letters::bytes, defaults);
}

result<std::shared_ptr<const tokenizer>> create_spm(const gguf_file& file) {
  auto common = read_common(file, {.bos = 1, .eos = 2, .unknown = 0, .add_bos = true});
  if (!common) return std::unexpected(common.error());
  if (!common->words.has_scores()) {
    return fail("model_invalid",
                fmt::format("{} has no key tokenizer.ggml.scores, without which its SentencePiece tokenizer cannot "
                            "work; convert the model again",
                            file.file_name()));
  }
  const auto prefix = file.find_bool("tokenizer.ggml.add_space_prefix");
  if (!prefix) return std::unexpected(prefix.error());
  return std::make_shared<const spm_tokenizer>(spm_tokenizer::parts{.words = std::move(common->words),
                                                                    .specials = std::move(common->specials),
                                                                    .right_strip = std::move(common->right_strip),
                                                                    .space_prefix = prefix->value_or(true)});
}

}  // namespace

result<std::shared_ptr<const tokenizer>> tokenizer::create(const gguf_file& file) {
  const auto model = file.get_string("tokenizer.ggml.model");
  if (!model) return std::unexpected(model.error());
  if (*model == "gpt2") return create_byte_bpe(file);
  if (*model == "llama") return create_spm(file);
  if (*model == "gemma4") return create_bpe(file, line_split_style(), bpe_letters::characters, {.add_bos = true});
  return fail("model_unsupported",
              fmt::format("{}: the tokenizer '{}' (tokenizer.ggml.model) is not supported; use a model with a BPE "
                          "('gpt2') or SentencePiece ('llama') tokenizer",
                          file.file_name(), shown(*model)));
}

std::vector<token_id> tokenizer::encode(std::string_view text, bool add_special, bool parse_special) const {
  const text_segment whole{std::string(text), parse_special};
  return encode(std::span(&whole, 1), add_special);
}

}  // namespace kvern
