#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvern::chat {

/// Bytes with their provenance: a sequence of runs, each trusted (from the template's source) or not (from the values
/// given to it). Grows at its end only, so a `text` that looks at its front stays true. Not thread-safe while growing;
/// a sealed store is immutable and may be read from any thread.
class text_store {
 public:
  /// Owns its bytes and may grow.
  text_store() = default;
  /// Sealed, of one run. Owns its bytes.
  text_store(std::string bytes, bool trusted);
  /// Sealed, of one untrusted or trusted run. The bytes stay the caller's and outlive the store.
  static text_store view_of(std::string_view bytes, bool trusted);
  text_store(const text_store&) = delete;
  text_store& operator=(const text_store&) = delete;
  text_store(text_store&&) = default;
  text_store& operator=(text_store&&) = default;

  std::string_view bytes() const { return foreign_.data() != nullptr ? foreign_ : std::string_view(own_); }
  bool can_grow() const { return !sealed_; }
  void reserve(std::size_t bytes) { own_.reserve(bytes); }
  /// `bytes` must not lie in this store.
  void append(std::string_view bytes, bool trusted);
  /// Appends bytes `from`..`from + size` of this very store, with their trust.
  void append_own(std::size_t from, std::size_t size);
  void seal() { sealed_ = true; }

  struct run {
    std::uint32_t end = 0;  ///< offset of the byte after the run
    bool trusted = false;
  };
  const std::vector<run>& runs() const { return runs_; }
  /// The run that holds byte `offset` (less than the size).
  std::size_t run_at(std::size_t offset) const;
  /// Whether all bytes up to `end` are ASCII. Remembers what it has looked at.
  bool ascii_up_to(std::size_t end) const;

 private:
  std::string own_;
  std::string_view foreign_;
  std::vector<run> runs_;
  bool sealed_ = false;
  mutable std::size_t ascii_seen_ = 0;
  mutable bool ascii_ = true;
};

/// A slice of a store: a string of the template language. Cheap to copy; the store outlives it. At most 4 GiB.
class text {
 public:
  text() = default;
  text(text_store* store, std::size_t offset, std::size_t size)
      : store_(store), offset_(static_cast<std::uint32_t>(offset)), size_(static_cast<std::uint32_t>(size)) {}
  static text whole(text_store& store) { return {&store, 0, store.bytes().size()}; }

  std::string_view view() const {
    return store_ == nullptr ? std::string_view() : store_->bytes().substr(offset_, size_);
  }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  /// Bytes `from`..`from + size` (within the text).
  text sub(std::size_t from, std::size_t size) const { return {store_, offset_ + from, size}; }
  text from(std::size_t start) const { return sub(start, size_ - start); }
  bool ascii() const { return store_ == nullptr || store_->ascii_up_to(offset_ + size_) || unicode_ascii(); }
  /// Code points.
  std::size_t length() const;
  /// Byte offset of code point `index` (0..length).
  std::size_t offset_of(std::size_t index) const;
  bool trusted_at(std::size_t byte) const;
  /// True when no byte is untrusted.
  bool all_trusted() const;

  /// Calls `f(std::string_view, bool trusted)` for each run, in order.
  template <class F>
  void each_run(F&& f) const {
    if (size_ == 0) return;
    std::size_t at = offset_;
    const std::size_t end = at + size_;
    for (std::size_t r = store_->run_at(at); at < end; ++r) {
      const auto& run = store_->runs()[r];
      const std::size_t stop = run.end < end ? run.end : end;
      f(store_->bytes().substr(at, stop - at), run.trusted);
      at = stop;
    }
  }

  text_store* store() const { return store_; }
  std::size_t offset() const { return offset_; }

 private:
  bool unicode_ascii() const;

  text_store* store_ = nullptr;
  std::uint32_t offset_ = 0;
  std::uint32_t size_ = 0;
};

/// Answers `trusted_at` for ascending offsets of one text, in constant time each.
class trust_cursor {
 public:
  explicit trust_cursor(const text& t);
  bool at(std::size_t byte);

 private:
  text text_;
  std::size_t run_ = 0;
};

}  // namespace kvern::chat
