#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "model/chat/runtime.hpp"
#include "model/chat/unicode.hpp"

namespace kvern::chat {

/// Work on strings that methods and filters share. Characters that are kept keep their trust.

enum class letter_case { lower, upper, title, capitalize, swap };

/// Python's str.lower, upper, title, capitalize, swapcase.
text with_case(runtime& rt, const text& t, letter_case c);

/// Without the leading and trailing characters that are in `chars`, or white space when it is null.
text stripped(runtime& rt, const text& t, const text* chars, bool left, bool right);

/// Up to `count` (-1: all) occurrences of `from` replaced.
text replaced(runtime& rt, const text& t, const text& from, const text& to, std::int64_t count);

/// Python's str.split: at `separator` (not empty), or at white space when it is null; at most `limit` times (-1: all).
std::vector<val> split(runtime& rt, const text& t, const text* separator, std::int64_t limit);
std::vector<val> split_from_right(runtime& rt, const text& t, const text* separator, std::int64_t limit);
/// Python's str.splitlines.
std::vector<val> split_lines(runtime& rt, const text& t, bool keep_ends);

/// `count` copies of `fill`.
text repeated_fill(runtime& rt, const text& fill, std::int64_t count);

/// The elements' strings with `separator` between them.
val join(runtime& rt, const text& separator, const std::vector<val>& items);

}  // namespace kvern::chat
