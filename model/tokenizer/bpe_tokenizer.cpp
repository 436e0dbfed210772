#include "model/tokenizer/bpe_tokenizer.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "base/utf8.hpp"
#include "model/tokenizer/byte_alphabet.hpp"
#include "model/tokenizer/escaped_space.hpp"

namespace kvern {
namespace {

/// A word of more letters is merged in parts of this many, which bounds the scratch memory to about 60 MB.
constexpr std::size_t most_letters = std::size_t{1} << 20;
constexpr std::uint32_t nowhere = 0xFFFFFFFF;

/// A part of a word in the list of parts. `rank` and `joined` are those of its merge with the next part.
struct part {
  symbol_id symbol;
  std::uint32_t begin;  // in the word
  std::uint32_t previous;
  std::uint32_t next;
  std::uint32_t rank;
  symbol_id joined;
};

std::vector<std::string_view> letters_of(bpe_letters letters) {
  std::vector<std::string_view> list;
  if (letters == bpe_letters::bytes) {
    for (unsigned byte = 0; byte < 256; ++byte) list.push_back(byte_character(static_cast<std::uint8_t>(byte)));
  }
  return list;
}

}  // namespace

class bpe_tokenizer::bpe_encoder final : public encoder {
 public:
  explicit bpe_encoder(const bpe_tokenizer& owner) : owner_(owner), session_(owner.splitter_) {}

  void encode(std::string_view plain, bool /*fresh*/, std::vector<token_id>& out) override {
    if (owner_.letters_ == bpe_letters::characters) {
      escaped_.clear();
      append_escaped(plain, escaped_);
      plain = escaped_;
    }
    session_.split(plain, [&](std::string_view word) { encode_word(word, out); });
  }

 private:
  void encode_word(std::string_view word, std::vector<token_id>& out) {
    if (const token_id whole = whole_token(word); whole != no_token) {
      out.push_back(whole);
      return;
    }
    while (!word.empty()) {
      const std::size_t taken = spell(word);
      merge();
      emit(word.substr(0, taken), out);
      word.remove_prefix(taken);
    }
  }

  /// The token that a word is without any merges, or no_token.
  token_id whole_token(std::string_view word) {
    const vocabulary& words = owner_.words();
    if (word.size() > words.longest_text()) return no_token;
    if (owner_.letters_ == bpe_letters::characters) {
      return word.front() == '\n' ? words.find_ordinary(word) : no_token;
    }
    if (!owner_.ignore_merges_) return no_token;
    spelled_.clear();
    append_characters(word, spelled_);
    return words.find_ordinary(spelled_);
  }

  /// Makes the list of letters of the word, or of its front; returns how many bytes that is.
  std::size_t spell(std::string_view word) {
    parts_.clear();
    std::size_t at = 0;
    while (at < word.size() && parts_.size() < most_letters) {
      const auto index = static_cast<std::uint32_t>(parts_.size());
      std::size_t length = 1;
      symbol_id symbol = no_symbol;
      if (owner_.letters_ == bpe_letters::bytes) {
        symbol = owner_.merges_.letter(static_cast<unsigned char>(word[at]));
      } else {
        length = utf8_next(word.substr(at)).length;
        const token_id id = owner_.words().find_ordinary(word.substr(at, length));
        if (id != no_token) symbol = static_cast<symbol_id>(id);
      }
      parts_.push_back({symbol, static_cast<std::uint32_t>(at), index == 0 ? nowhere : index - 1, index + 1,
                        merge_table::no_rank, no_symbol});
      at += length;
    }
    parts_.back().next = nowhere;
    return at;
  }

  /// Looks up the merge of part `i` with the next one; whether there is one.
  bool weigh(std::uint32_t i) {
    part& p = parts_[i];
    p.rank = merge_table::no_rank;
    if (p.next == nowhere || p.symbol == no_symbol || parts_[p.next].symbol == no_symbol) return false;
    const merge_table::merge found = owner_.merges_.find(p.symbol, parts_[p.next].symbol);
    p.rank = found.rank;
    p.joined = found.joined;
    return p.rank != merge_table::no_rank;
  }

  std::uint64_t entry(std::uint32_t i) const { return (std::uint64_t{parts_[i].rank} << 32) | i; }

  void push(std::uint32_t i) {
    if (!weigh(i)) return;
    heap_.push_back(entry(i));
    std::ranges::push_heap(heap_, std::greater{});
  }

  void merge() {
    heap_.clear();
    for (std::uint32_t i = 0; i + 1 < parts_.size(); ++i) {
      if (weigh(i)) heap_.push_back(entry(i));
    }
    std::ranges::make_heap(heap_, std::greater{});
    while (!heap_.empty()) {
      std::ranges::pop_heap(heap_, std::greater{});
      const std::uint64_t top = heap_.back();
      heap_.pop_back();
      const auto i = static_cast<std::uint32_t>(top);
      part& left = parts_[i];
      if (left.rank != top >> 32) continue;  // one of the pair has been merged since
      part& right = parts_[left.next];
      left.symbol = left.joined;
      left.next = right.next;
      if (right.next != nowhere) parts_[right.next].previous = i;
      right.rank = merge_table::no_rank;
      push(i);
      if (left.previous != nowhere) push(left.previous);
    }
  }

  void emit(std::string_view word, std::vector<token_id>& out) {
    const auto size = static_cast<symbol_id>(owner_.words().size());
    for (std::uint32_t i = 0; i != nowhere; i = parts_[i].next) {
      const part& p = parts_[i];
      if (p.symbol < size) {
        out.push_back(static_cast<token_id>(p.symbol));
        continue;
      }
      const std::size_t end = p.next == nowhere ? word.size() : parts_[p.next].begin;
      for (const char c : word.substr(p.begin, end - p.begin)) emit_byte(static_cast<std::uint8_t>(c), out);
    }
  }

  void emit_byte(std::uint8_t byte, std::vector<token_id>& out) {
    const vocabulary& words = owner_.words();
    token_id id = no_token;
    if (owner_.letters_ == bpe_letters::bytes) id = words.find_ordinary(byte_character(byte));
    if (id == no_token) id = words.byte_token(byte);
    if (id == no_token) id = owner_.unknown().value_or(no_token);
    if (id != no_token) out.push_back(id);
  }

  const bpe_tokenizer& owner_;
  pretokenizer::session session_;
  std::string escaped_;
  std::string spelled_;
  std::vector<part> parts_;
  std::vector<std::uint64_t> heap_;
};

bpe_tokenizer::bpe_tokenizer(parts p, std::span<const std::string_view> merges)
    : vocabulary_tokenizer(std::move(p.words), std::move(p.specials), std::move(p.right_strip), false),
      splitter_(std::move(p.splitter)),
      letters_(p.letters),
      ignore_merges_(p.ignore_merges),
      merges_(words(), merges, letters_of(p.letters)) {}

std::unique_ptr<vocabulary_tokenizer::encoder> bpe_tokenizer::make_encoder() const {
  return std::make_unique<bpe_encoder>(*this);
}

void bpe_tokenizer::append_ordinary(std::string_view text, std::string& out) const {
  if (letters_ == bpe_letters::bytes) {
    append_bytes(text, out);
  } else {
    append_unescaped(text, out);
  }
}

}  // namespace kvern
