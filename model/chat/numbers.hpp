#pragma once

#include <optional>
#include <string_view>

#include "model/chat/runtime.hpp"

namespace kvern::chat {

/// Python's int(text, base): white space around, sign, prefix, single underscores, digits of any script. Nullopt: no
/// integer so written. Errors: `template_limit` beyond 127 bits.
std::optional<wide> parse_integer(std::string_view s, int base);

/// Python's float(text): also inf, nan, underscores.
std::optional<double> parse_real(std::string_view s);

/// Python's float(v). Nullopt: not a number, nor a string that is one. Errors: `template_undefined`.
std::optional<double> to_real(const val& v);

/// Python's round(d, digits): correctly rounded, ties to even.
double round_real(double d, int digits);

}  // namespace kvern::chat
