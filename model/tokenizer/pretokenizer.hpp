#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace kvern {

/// Cuts a text into words by a list of expressions: each cuts every piece that the ones before have left into its
/// matches and what lies between them. PCRE2, compiled to machine code where the system lets it.
///
/// Immutable; safe to use from any thread, each with a `session` of its own.
class pretokenizer {
 public:
  /// Errors: `model_unsupported` when an expression does not compile.
  static result<pretokenizer> create(std::span<const std::string_view> expressions);
  ~pretokenizer();
  pretokenizer(pretokenizer&&) noexcept;
  pretokenizer& operator=(pretokenizer&&) noexcept;

  /// Scratch memory of one thread's work: 32 KiB, growing to at most 8 MiB. Refers to the pretokenizer.
  class session {
   public:
    explicit session(const pretokenizer& owner);
    ~session();
    session(const session&) = delete;
    session& operator=(const session&) = delete;

    /// Calls `word` for each word, in order; together they are the text, none is empty. A byte that is not part of
    /// valid UTF-8 is a word of its own, and the text on either side is cut as if it ended there. Linear, no recursion
    /// by the text's length.
    void split(std::string_view text, const std::function<void(std::string_view)>& word);

   private:
    void split_piece(std::size_t step, std::string_view piece, const std::function<void(std::string_view)>& word);
    std::size_t find(std::size_t step, std::string_view piece, std::size_t from, std::size_t& end);

    struct scratch;
    const pretokenizer& owner_;
    std::unique_ptr<scratch> scratch_;
  };

 private:
  struct program;
  pretokenizer();
  std::vector<program> programs_;
};

/// `expression` with \s and \S spelled out as Unicode's White_Space (PCRE2's own \s holds U+180E besides).
std::string expand_white_space(std::string_view expression);

}  // namespace kvern
