#include "model/tokenizer/spm_tokenizer.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/utf8.hpp"
#include "model/tokenizer/escaped_space.hpp"

namespace kvern {
namespace {

/// A text of more characters is merged in parts of this many, which bounds the scratch memory to about 200 MB.
constexpr std::size_t most_characters = std::size_t{1} << 22;
constexpr std::uint32_t nowhere = 0xFFFFFFFF;

/// A part of the text in the list of parts. Length 0: merged into another.
struct part {
  std::uint32_t begin;
  std::uint32_t length;
  std::uint32_t previous;
  std::uint32_t next;
  token_id id;  // of its text, or no_token
};

/// A merge that was possible when it was found: of part `left` and the next one, `length` bytes together.
struct candidate {
  float score;
  std::uint32_t left;
  std::uint32_t length;
  token_id id;
};

bool goes_later(const candidate& a, const candidate& b) {
  return a.score < b.score || (a.score == b.score && a.left > b.left);
}

}  // namespace

class spm_tokenizer::spm_encoder final : public encoder {
 public:
  explicit spm_encoder(const spm_tokenizer& owner) : owner_(owner) {}

  void encode(std::string_view plain, bool fresh, std::vector<token_id>& out) override {
    escaped_.clear();
    if (fresh && owner_.space_prefix_) escaped_ += escaped_space;
    append_escaped(plain, escaped_);
    std::string_view rest = escaped_;
    while (!rest.empty()) {
      const std::size_t taken = spell(rest);
      const std::string_view text = rest.substr(0, taken);
      merge(text);
      emit(text, out);
      rest.remove_prefix(taken);
    }
  }

 private:
  /// Makes the list of characters of the text, or of its front; returns how many bytes that is.
  std::size_t spell(std::string_view text) {
    parts_.clear();
    std::size_t at = 0;
    while (at < text.size() && parts_.size() < most_characters) {
      const utf8_step step = utf8_next(text.substr(at));
      const std::size_t length = step.state == utf8_state::valid ? step.length : 1;
      const auto index = static_cast<std::uint32_t>(parts_.size());
      parts_.push_back({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(length),
                        index == 0 ? nowhere : index - 1, index + 1,
                        owner_.words().find_ordinary(text.substr(at, length))});
      at += length;
    }
    parts_.back().next = nowhere;
    return at;
  }

  /// The merge of part `left` with the next one, if their text is a token.
  bool weigh(std::string_view text, std::uint32_t left, candidate& found) const {
    const part& p = parts_[left];
    if (p.next == nowhere) return false;
    const std::uint32_t length = p.length + parts_[p.next].length;
    const token_id id = owner_.words().find_ordinary(text.substr(p.begin, length));
    if (id == no_token) return false;
    found = {owner_.words().score(id), left, length, id};
    return true;
  }

  void push(std::string_view text, std::uint32_t left) {
    candidate found{};
    if (!weigh(text, left, found)) return;
    heap_.push_back(found);
    std::ranges::push_heap(heap_, goes_later);
  }

  void merge(std::string_view text) {
    heap_.clear();
    candidate found{};
    for (std::uint32_t i = 0; i + 1 < parts_.size(); ++i) {
      if (weigh(text, i, found)) heap_.push_back(found);
    }
    std::ranges::make_heap(heap_, goes_later);
    while (!heap_.empty()) {
      std::ranges::pop_heap(heap_, goes_later);
      const candidate top = heap_.back();
      heap_.pop_back();
      part& left = parts_[top.left];
      if (left.length == 0 || left.next == nowhere) continue;
      part& right = parts_[left.next];
      if (left.length + right.length != top.length) continue;  // parts only grow: one has been merged since
      left.length = top.length;
      left.id = top.id;
      left.next = right.next;
      right.length = 0;
      if (right.next != nowhere) parts_[right.next].previous = top.left;
      if (left.previous != nowhere) push(text, left.previous);
      push(text, top.left);
    }
  }

  void emit(std::string_view text, std::vector<token_id>& out) const {
    for (std::uint32_t i = 0; i != nowhere; i = parts_[i].next) {
      const part& p = parts_[i];
      if (p.id != no_token) {
        out.push_back(p.id);
        continue;
      }
      for (const char c : text.substr(p.begin, p.length)) {
        token_id id = owner_.words().byte_token(static_cast<std::uint8_t>(c));
        if (id == no_token) id = owner_.unknown().value_or(no_token);
        if (id != no_token) out.push_back(id);
      }
    }
  }

  const spm_tokenizer& owner_;
  std::string escaped_;
  std::vector<part> parts_;
  std::vector<candidate> heap_;
};

spm_tokenizer::spm_tokenizer(parts p)
    : vocabulary_tokenizer(std::move(p.words), std::move(p.specials), std::move(p.right_strip), p.space_prefix),
      space_prefix_(p.space_prefix) {}

std::unique_ptr<vocabulary_tokenizer::encoder> spm_tokenizer::make_encoder() const {
  return std::make_unique<spm_encoder>(*this);
}

void spm_tokenizer::append_ordinary(std::string_view text, std::string& out) const { append_unescaped(text, out); }

}  // namespace kvern
