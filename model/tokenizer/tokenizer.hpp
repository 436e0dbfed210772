#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/token.hpp"
#include "model/gguf/gguf.hpp"

namespace kvern {

/// A part of a prompt. Control tokens are recognised only where every byte of them is trusted.
struct text_segment {
  std::string text;
  bool trusted = false;

  friend bool operator==(const text_segment&, const text_segment&) = default;
};

enum class token_kind : std::uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

/// Text to token ids and back, as the model's file says. Immutable and safe to use from any thread.
class tokenizer {
 public:
  /// Errors: `model_unsupported` (tokenizer model or pre-tokenizer not known, named), `model_invalid`.
  static result<std::shared_ptr<const tokenizer>> create(const gguf_file& file);
  virtual ~tokenizer() = default;

  /// Token ids of the segments taken as one text. `add_special` puts BOS or EOS there as the file says. Never fails:
  /// invalid UTF-8 is taken byte by byte. Linear in the text; no recursion.
  virtual std::vector<token_id> encode(std::span<const text_segment> segments, bool add_special) const = 0;
  std::vector<token_id> encode(std::string_view text, bool add_special, bool parse_special) const;

  /// Bytes of one token in the middle of a text (SPM: U+2581 as a space). Control tokens yield their text only with
  /// `special`. Out-of-range ids yield nothing.
  virtual std::string piece(token_id id, bool special) const = 0;
  /// Bytes of a whole sequence (SPM with space prefix: the first space is dropped). May be invalid UTF-8.
  virtual std::string decode(std::span<const token_id> ids, bool special) const = 0;

  virtual std::int32_t vocab_size() const = 0;
  virtual token_kind kind(token_id id) const = 0;
  virtual std::optional<token_id> bos() const = 0;
  virtual std::optional<token_id> eos() const = 0;
  virtual bool adds_bos() const = 0;
  /// End of generation: eos, eot, and control tokens known by their text.
  virtual bool is_end(token_id id) const = 0;
  /// The text of a token as the vocabulary stores it.
  virtual std::string_view text(token_id id) const = 0;
};

/// Text of a growing sequence: holds back bytes that are not yet a whole UTF-8 character; invalid bytes become U+FFFD.
/// What it has put out is always valid UTF-8. Not thread-safe.
class detokenizer {
 public:
  /// `special`: control tokens show their text.
  explicit detokenizer(std::shared_ptr<const tokenizer> t, bool special = false);

  /// The text that `id` completes, maybe empty.
  std::string push(token_id id);
  /// What is held back, as one U+FFFD, or nothing.
  std::string flush();

 private:
  std::shared_ptr<const tokenizer> tokenizer_;
  bool special_;
  std::string held_;
};

}  // namespace kvern
