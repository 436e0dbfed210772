#include "model/tokenizer/vocabulary_tokenizer.hpp"

#include <algorithm>
#include <utility>

namespace kvern {
namespace {

/// The segments as one text, and which bytes of it are trusted. A text of one segment is not copied.
struct joined_text {
  std::string storage;
  std::string_view text;
  std::vector<byte_range> trusted;
};

void join(std::span<const text_segment> segments, joined_text& joined) {
  std::size_t total = 0;
  for (const text_segment& segment : segments) {
    const std::size_t begin = total;
    total += segment.text.size();
    if (!segment.trusted || segment.text.empty()) continue;
    if (!joined.trusted.empty() && joined.trusted.back().end == begin) {
      joined.trusted.back().end = total;
    } else {
      joined.trusted.push_back({begin, total});
    }
  }
  if (segments.size() == 1) {
    joined.text = segments.front().text;
    return;
  }
  joined.storage.reserve(total);
  for (const text_segment& segment : segments) joined.storage += segment.text;
  joined.text = joined.storage;
}

}  // namespace

vocabulary_tokenizer::vocabulary_tokenizer(vocabulary words, special_ids specials, std::vector<token_id> right_strip,
                                           bool drops_first_space)
    : words_(std::move(words)),
      specials_(std::move(specials)),
      matcher_(words_, std::move(right_strip)),
      drops_first_space_(drops_first_space) {}

std::vector<token_id> vocabulary_tokenizer::encode(std::span<const text_segment> segments, bool add_special) const {
  joined_text joined;
  join(segments, joined);
  const std::string_view text = joined.text;

  std::vector<token_id> out;
  if (add_special && specials_.add_bos) out.push_back(*specials_.bos);
  const std::vector<special_match> matches = matcher_.find(text, joined.trusted);
  const std::unique_ptr<encoder> plain = make_encoder();
  std::size_t at = 0;
  bool fresh = true;
  for (const special_match& match : matches) {
    if (match.begin > at) plain->encode(text.substr(at, match.begin - at), fresh, out);
    out.push_back(match.id);
    at = match.end;
    fresh = true;
  }
  if (at < text.size()) plain->encode(text.substr(at), fresh, out);
  if (add_special && specials_.add_eos) out.push_back(*specials_.eos);
  return out;
}

void vocabulary_tokenizer::append_piece(token_id id, bool special, std::string& out) const {
  if (!words_.contains(id)) return;
  const std::string_view own = words_.text(id);
  switch (words_.kind(id)) {
    case token_kind::control:
    case token_kind::unknown:
    case token_kind::unused:
      if (special) out += own;
      return;
    case token_kind::user_defined:
      out += own;
      return;
    case token_kind::byte:
      if (const int byte = byte_of_text(own); byte >= 0) {
        out += static_cast<char>(byte);
        return;
      }
      break;
    case token_kind::normal:
      break;
  }
  append_ordinary(own, out);
}

std::string vocabulary_tokenizer::piece(token_id id, bool special) const {
  std::string out;
  append_piece(id, special, out);
  return out;
}

std::string vocabulary_tokenizer::decode(std::span<const token_id> ids, bool special) const {
  std::string out;
  bool first = true;
  for (const token_id id : ids) {
    append_piece(id, special, out);
    if (first && !out.empty()) {
      first = false;
      if (drops_first_space_ && out.front() == ' ') out.erase(0, 1);
    }
  }
  return out;
}

token_kind vocabulary_tokenizer::kind(token_id id) const {
  return words_.contains(id) ? words_.kind(id) : token_kind::unused;
}

bool vocabulary_tokenizer::is_end(token_id id) const { return std::ranges::binary_search(specials_.ends, id); }

std::string_view vocabulary_tokenizer::text(token_id id) const {
  return words_.contains(id) ? words_.text(id) : std::string_view{};
}

}  // namespace kvern
