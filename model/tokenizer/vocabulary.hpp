#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/token.hpp"
#include "model/gguf/gguf.hpp"
#include "model/tokenizer/tokenizer.hpp"

namespace kvern {

inline constexpr token_id no_token = -1;

/// The tokens of a model: text, kind and score of each, and the way back from a text.
///
/// Owns copies of what it needs (one buffer for all texts), so the file may close. Immutable after load but for
/// `set_kind`; then safe to use from any thread.
class vocabulary {
 public:
  /// Reads `tokenizer.ggml.tokens`, `.scores` and `.token_type`. Errors: `model_invalid`.
  static result<vocabulary> load(const gguf_file& file);
  /// The same from values. `kinds` as in the file (unknown numbers count as unused); `kinds` and `scores` may be empty
  /// (all normal, all 0), else as long as `texts`; scores must not be NaN.
  static result<vocabulary> create(const std::vector<std::string_view>& texts, const std::vector<std::int64_t>& kinds,
                                   std::vector<float> scores);

  std::int32_t size() const { return static_cast<std::int32_t>(kinds_.size()); }
  bool contains(token_id id) const { return id >= 0 && id < size(); }

  /// The ids of these three must be in the vocabulary. The text lives as long as this object.
  std::string_view text(token_id id) const;
  token_kind kind(token_id id) const { return kinds_[static_cast<std::size_t>(id)]; }
  float score(token_id id) const { return scores_.empty() ? 0.0F : scores_[static_cast<std::size_t>(id)]; }
  bool has_scores() const { return !scores_.empty(); }
  /// Whether the file says of each token what kind it is.
  bool states_kinds() const { return states_kinds_; }

  /// The token whose text is exactly `text` (the lowest id of several), or `no_token`. An empty text is no token's.
  token_id find(std::string_view text) const;
  /// The same, but only tokens that plain text may become: never control, unknown or byte tokens.
  token_id find_ordinary(std::string_view text) const;
  /// The token `<0xHH>` of a byte, or `no_token`.
  token_id byte_token(std::uint8_t byte) const { return byte_tokens_[byte]; }
  /// Bytes of the longest text.
  std::size_t longest_text() const { return longest_; }

  void set_kind(token_id id, token_kind kind) { kinds_[static_cast<std::size_t>(id)] = kind; }

 private:
  vocabulary() = default;
  void index();

  std::string buffer_;                 // all texts, one after the other
  std::vector<std::uint32_t> begins_;  // size() + 1 offsets into buffer_
  std::vector<token_kind> kinds_;
  std::vector<float> scores_;
  std::vector<token_id> slots_;  // open addressing, a power of two of them
  std::array<token_id, 256> byte_tokens_{};
  std::size_t longest_ = 0;
  bool states_kinds_ = false;
};

/// The byte that a text `<0xHH>` names, or -1.
int byte_of_text(std::string_view text);

}  // namespace kvern
