#include "model/chat/text.hpp"

#include <algorithm>
#include <utility>

#include "model/chat/unicode.hpp"

namespace kvern::chat {

text_store::text_store(std::string bytes, bool trusted) : own_(std::move(bytes)), sealed_(true) {
  runs_.push_back({static_cast<std::uint32_t>(own_.size()), trusted});
  ascii_up_to(own_.size());
}

text_store text_store::view_of(std::string_view bytes, bool trusted) {
  text_store store;
  store.foreign_ = bytes.data() != nullptr ? bytes : std::string_view("");
  store.runs_.push_back({static_cast<std::uint32_t>(bytes.size()), trusted});
  store.sealed_ = true;
  return store;
}

void text_store::append(std::string_view bytes, bool trusted) {
  if (bytes.empty()) return;
  own_.append(bytes);
  const auto end = static_cast<std::uint32_t>(own_.size());
  if (!runs_.empty() && runs_.back().trusted == trusted) {
    runs_.back().end = end;
  } else {
    runs_.push_back({end, trusted});
  }
}

void text_store::append_own(std::size_t from, std::size_t size) {
  if (size == 0) return;
  own_.reserve(own_.size() + size);
  const std::size_t end = from + size;
  for (std::size_t r = run_at(from), at = from; at < end; ++r) {
    const run source = runs_[r];
    const std::size_t stop = std::min<std::size_t>(source.end, end);
    append(std::string_view(own_).substr(at, stop - at), source.trusted);
    at = stop;
  }
}

std::size_t text_store::run_at(std::size_t offset) const {
  if (runs_.size() == 1) return 0;
  const auto it =
      std::upper_bound(runs_.begin(), runs_.end(), offset, [](std::size_t o, const run& r) { return o < r.end; });
  return static_cast<std::size_t>(it - runs_.begin());
}

bool text_store::ascii_up_to(std::size_t end) const {
  if (ascii_ && ascii_seen_ < end) {
    // A sealed store is looked at whole, once; a literal shared by threads at its making.
    const std::size_t stop = sealed_ ? bytes().size() : end;
    ascii_ = unicode::ascii(bytes().substr(ascii_seen_, stop - ascii_seen_));
    ascii_seen_ = stop;
  }
  return ascii_ && ascii_seen_ >= end;
}

bool text::unicode_ascii() const { return size_ <= 64 && unicode::ascii(view()); }

std::size_t text::length() const { return ascii() ? size_ : unicode::length(view()); }

std::size_t text::offset_of(std::size_t index) const {
  if (ascii()) return index;
  const std::string_view s = view();
  std::size_t at = 0;
  for (; index > 0 && at < s.size(); --index) at += unicode::decode(s, at).size;
  return at;
}

bool text::trusted_at(std::size_t byte) const { return store_->runs()[store_->run_at(offset_ + byte)].trusted; }

bool text::all_trusted() const {
  bool all = true;
  each_run([&](std::string_view, bool trusted) { all = all && trusted; });
  return all;
}

trust_cursor::trust_cursor(const text& t) : text_(t), run_(t.empty() ? 0 : t.store()->run_at(t.offset())) {}

bool trust_cursor::at(std::size_t byte) {
  const auto& runs = text_.store()->runs();
  while (runs[run_].end <= text_.offset() + byte) ++run_;
  return runs[run_].trusted;
}

}  // namespace kvern::chat
