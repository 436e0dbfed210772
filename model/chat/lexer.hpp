#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace kvern::chat {

enum class token_kind : std::uint8_t {
  data,            ///< text between tags, white space already stripped as the tags ask
  variable_begin,  ///< {{
  variable_end,    ///< }}
  block_begin,     ///< {%
  block_end,       ///< %}
  name,
  string,   ///< escapes already resolved
  integer,  ///< digits without underscores; prefix kept
  real,
  op,  ///< operator or bracket; `text` is it
  end,
};

struct lexeme {
  token_kind kind = token_kind::end;
  int line = 1;
  std::string text;
};

/// Splits template source (UTF-8) into tokens, as Jinja does with trim_blocks and lstrip_blocks on. The last is `end`.
/// Runs in time linear in the source. Errors: `template_syntax`.
result<std::vector<lexeme>> tokenize(std::string_view source);

}  // namespace kvern::chat
