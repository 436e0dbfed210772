#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer/merge_table.hpp"
#include "model/tokenizer/pretokenizer.hpp"
#include "model/tokenizer/vocabulary_tokenizer.hpp"

namespace kvern {

/// What the letters of a BPE vocabulary are.
enum class bpe_letters : std::uint8_t {
  bytes,       ///< one character of the byte alphabet for each byte (GPT-2)
  characters,  ///< the text's own characters, spaces as U+2581, other bytes as <0xHH> (Gemma 4)
};

/// Byte-pair encoding. Merges go in the order of their ranks, the leftmost first among equals: n log n in a word's
/// length.
class bpe_tokenizer final : public vocabulary_tokenizer {
 public:
  struct parts {
    vocabulary words;
    special_ids specials;
    std::vector<token_id> right_strip;
    pretokenizer splitter;
    bpe_letters letters = bpe_letters::bytes;
    /// A word that is a token as a whole is taken before any merge.
    bool ignore_merges = false;
  };
  /// `merges` is not kept.
  bpe_tokenizer(parts p, std::span<const std::string_view> merges);

 protected:
  std::unique_ptr<encoder> make_encoder() const override;
  void append_ordinary(std::string_view text, std::string& out) const override;

 private:
  class bpe_encoder;

  pretokenizer splitter_;
  bpe_letters letters_;
  bool ignore_merges_;
  merge_table merges_;
};

}  // namespace kvern
