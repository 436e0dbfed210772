#include "model/tokenizer/vocabulary.hpp"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace kvern {
namespace {

constexpr std::string_view hex_digits = "0123456789ABCDEF";

token_kind kind_of(std::int64_t number) {
  return number >= 1 && number <= 6 ? static_cast<token_kind>(number) : token_kind::unused;
}

bool is_ordinary(token_kind kind) {
  return kind == token_kind::normal || kind == token_kind::user_defined || kind == token_kind::unused;
}

result<std::vector<float>> read_scores(const gguf_file& file) {
  constexpr std::string_view key = "tokenizer.ggml.scores";
  auto floats = file.find_floats(key);
  if (floats) return floats->has_value() ? std::move(**floats) : std::vector<float>{};
  const auto ints = file.find_ints(key);  // some writers store whole numbers
  if (!ints || !ints->has_value()) return std::unexpected(floats.error());
  std::vector<float> scores;
  scores.reserve((*ints)->size());
  for (const std::int64_t score : **ints) scores.push_back(static_cast<float>(score));
  return scores;
}

}  // namespace

result<vocabulary> vocabulary::load(const gguf_file& file) {
  auto texts = file.find_strings("tokenizer.ggml.tokens");
  if (!texts) return std::unexpected(texts.error());
  if (!texts->has_value()) {
    return fail("model_invalid",
                fmt::format("{} has no key tokenizer.ggml.tokens; convert the model again with its tokenizer",
                            file.file_name()));
  }
  auto kinds = file.find_ints("tokenizer.ggml.token_type");
  if (!kinds) return std::unexpected(kinds.error());
  auto scores = read_scores(file);
  if (!scores) return std::unexpected(scores.error());
  auto made = create(**texts, kinds->value_or(std::vector<std::int64_t>{}), std::move(*scores));
  if (!made) made.error().message = fmt::format("{}: {}", file.file_name(), made.error().message);
  return made;
}

result<vocabulary> vocabulary::create(const std::vector<std::string_view>& texts,
                                      const std::vector<std::int64_t>& kinds, std::vector<float> scores) {
  if (texts.empty()) return fail("model_invalid", "tokenizer.ggml.tokens is empty; convert the model again");
  // Half of the id range, so that the hash table's size fits too.
  if (texts.size() > static_cast<std::size_t>(std::numeric_limits<token_id>::max() / 2)) {
    return fail("model_invalid",
                fmt::format("tokenizer.ggml.tokens holds {} tokens, too many to number", texts.size()));
  }
  if (!kinds.empty() && kinds.size() != texts.size()) {
    return fail("model_invalid", fmt::format("tokenizer.ggml.token_type holds {} entries for {} tokens; convert the "
                                             "model again",
                                             kinds.size(), texts.size()));
  }
  if (!scores.empty() && scores.size() != texts.size()) {
    return fail("model_invalid", fmt::format("tokenizer.ggml.scores holds {} entries for {} tokens; convert the model "
                                             "again",
                                             scores.size(), texts.size()));
  }
  if (std::ranges::any_of(scores, [](float score) { return std::isnan(score); })) {
    return fail("model_invalid", "tokenizer.ggml.scores holds a value that is not a number; convert the model again");
  }

  std::uint64_t bytes = 0;
  for (const std::string_view text : texts) bytes += text.size();
  if (bytes > std::numeric_limits<std::uint32_t>::max()) {
    return fail("model_invalid",
                fmt::format("the texts of tokenizer.ggml.tokens take {} bytes; 4 GiB is the limit", bytes));
  }

  vocabulary v;
  v.buffer_.reserve(bytes);
  v.begins_.reserve(texts.size() + 1);
  v.begins_.push_back(0);
  for (const std::string_view text : texts) {
    v.buffer_ += text;
    v.begins_.push_back(static_cast<std::uint32_t>(v.buffer_.size()));
    v.longest_ = std::max(v.longest_, text.size());
  }
  v.kinds_.assign(texts.size(), token_kind::normal);
  v.states_kinds_ = !kinds.empty();
  std::ranges::transform(kinds, v.kinds_.begin(), kind_of);
  v.scores_ = std::move(scores);
  v.index();
  return v;
}

void vocabulary::index() {
  slots_.assign(std::bit_ceil(kinds_.size() * 2), no_token);
  const std::size_t mask = slots_.size() - 1;
  for (token_id id = 0; id < size(); ++id) {
    const std::string_view own = text(id);
    if (own.empty()) continue;
    std::size_t slot = XXH3_64bits(own.data(), own.size()) & mask;
    while (slots_[slot] != no_token && text(slots_[slot]) != own) slot = (slot + 1) & mask;
    if (slots_[slot] == no_token) slots_[slot] = id;
  }
  for (std::size_t byte = 0; byte < byte_tokens_.size(); ++byte) {
    const std::array<char, 6> name{'<', '0', 'x', hex_digits[byte >> 4], hex_digits[byte & 15], '>'};
    byte_tokens_[byte] = find({name.data(), name.size()});
  }
}

std::string_view vocabulary::text(token_id id) const {
  const auto i = static_cast<std::size_t>(id);
  return std::string_view(buffer_).substr(begins_[i], begins_[i + 1] - begins_[i]);
}

token_id vocabulary::find(std::string_view text) const {
  if (text.empty() || text.size() > longest_) return no_token;
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = XXH3_64bits(text.data(), text.size()) & mask;
  while (slots_[slot] != no_token && this->text(slots_[slot]) != text) slot = (slot + 1) & mask;
  return slots_[slot];
}

token_id vocabulary::find_ordinary(std::string_view text) const {
  const token_id id = find(text);
  return id != no_token && is_ordinary(kind(id)) ? id : no_token;
}

int byte_of_text(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  int value = 0;
  for (const char c : text.substr(3, 2)) {
    const int upper = c >= 'a' && c <= 'f' ? c - 'a' + 'A' : c;
    const std::size_t digit = hex_digits.find(static_cast<char>(upper));
    if (digit == std::string_view::npos) return -1;
    value = value * 16 + static_cast<int>(digit);
  }
  return value;
}

}  // namespace kvern
