#pragma once

#include <string>
#include <string_view>

#include "model/chat/runtime.hpp"

namespace kvern::chat {

/// `format % values`, as Python. The format's own characters and inserted strings keep their trust; everything else
/// that is inserted is untrusted. Errors: `template_type` for what the format cannot take, `template_limit`.
val format_percent(runtime& rt, const val& format, const val& values);

/// `format.format(...)`, sandboxed: attributes as the template language sees them. Trust and errors as above.
val format_braces(runtime& rt, const text& format, const arguments& args);

/// How a value is laid out by format().
struct format_spec {
  std::string fill = " ";
  char align = '\0';
  char sign = '-';
  bool alternate = false;
  std::size_t width = 0;
  char grouping = '\0';
  int precision = -1;
  char type = '\0';
};

/// Errors: `template_type` when malformed, `template_limit` for a width or precision that is out of hand.
format_spec parse_spec(std::string_view spec);
/// An integer in base 2, 8, 10 or 16 with sign, prefix and groups; unpadded but for zeros that `spec` asks for.
std::string format_integer(wide v, const format_spec& spec);
std::string format_real(double v, const format_spec& spec);
/// Adds `v` laid out by `spec`.
void add_formatted(runtime& rt, text_builder& out, const val& v, const format_spec& spec);

}  // namespace kvern::chat
