#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer/special_ids.hpp"
#include "model/tokenizer/special_matcher.hpp"
#include "model/tokenizer/tokenizer.hpp"
#include "model/tokenizer/vocabulary.hpp"

namespace kvern {

/// What all tokenizers share: segments become one text, special tokens are found, and what lies between them goes to
/// the derived class.
class vocabulary_tokenizer : public tokenizer {
 public:
  vocabulary_tokenizer(const vocabulary_tokenizer&) = delete;
  vocabulary_tokenizer& operator=(const vocabulary_tokenizer&) = delete;

  std::vector<token_id> encode(std::span<const text_segment> segments, bool add_special) const final;
  std::string piece(token_id id, bool special) const final;
  std::string decode(std::span<const token_id> ids, bool special) const final;

  std::int32_t vocab_size() const final { return words_.size(); }
  token_kind kind(token_id id) const final;
  std::optional<token_id> bos() const final { return specials_.bos; }
  std::optional<token_id> eos() const final { return specials_.eos; }
  bool adds_bos() const final { return specials_.add_bos; }
  bool is_end(token_id id) const final;
  std::string_view text(token_id id) const final;

 protected:
  /// `right_strip`: see special_matcher. `drops_first_space`: a decoded sequence loses the space in front.
  vocabulary_tokenizer(vocabulary words, special_ids specials, std::vector<token_id> right_strip,
                       bool drops_first_space);

  /// Scratch memory and work of one encode call.
  class encoder {
   public:
    virtual ~encoder() = default;
    /// Appends the tokens of plain text. `fresh`: it begins the whole text or follows a special token.
    virtual void encode(std::string_view plain, bool fresh, std::vector<token_id>& out) = 0;
  };
  virtual std::unique_ptr<encoder> make_encoder() const = 0;
  /// Appends the bytes of an ordinary token's text.
  virtual void append_ordinary(std::string_view text, std::string& out) const = 0;

  const vocabulary& words() const { return words_; }
  std::optional<token_id> unknown() const { return specials_.unknown; }

 private:
  void append_piece(token_id id, bool special, std::string& out) const;

  vocabulary words_;
  special_ids specials_;
  special_matcher matcher_;  // refers to words_
  bool drops_first_space_;
};

}  // namespace kvern
