#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model/chat/runtime.hpp"

namespace kvern::chat {

struct json_style {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  ///< one level; absent: all on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

/// What Python's json.dumps gives; untrusted. Errors: `template_type` for what JSON cannot say.
val to_json(runtime& rt, const val& v, const json_style& style);

/// What Python's json.loads gives; its strings are untrusted. Errors: `template_type` for malformed text.
val from_json(runtime& rt, std::string_view json);

}  // namespace kvern::chat
