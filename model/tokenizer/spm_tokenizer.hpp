#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer/vocabulary_tokenizer.hpp"

namespace kvern {

/// SentencePiece BPE: of all neighbours whose joined text is a token, the pair of the highest score is merged first,
/// the leftmost among equals. Characters that are no token become <0xHH> bytes. n log n in the text.
class spm_tokenizer final : public vocabulary_tokenizer {
 public:
  struct parts {
    vocabulary words;
    special_ids specials;
    std::vector<token_id> right_strip;
    /// A space goes before the text and after each special token.
    bool space_prefix = true;
  };
  explicit spm_tokenizer(parts p);

 protected:
  std::unique_ptr<encoder> make_encoder() const override;
  void append_ordinary(std::string_view text, std::string& out) const override;

 private:
  class spm_encoder;

  bool space_prefix_;
};

}  // namespace kvern
