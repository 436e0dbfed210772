#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "model/chat/value.hpp"

namespace kvern::chat {

/// A piece of rendered text: `trusted` when it came from the template's own source, not from the values given to it.
struct rendered_part {
  std::string text;
  bool trusted = false;
};

/// Bounds of one rendering.
struct render_limits {
  std::uint64_t steps = 4'000'000;          ///< evaluation steps
  std::uint64_t output_bytes = 16u << 20;   ///< text put out
  std::uint64_t memory_bytes = 256u << 20;  ///< of values made on the way
  int depth = 100;                          ///< nesting of calls and values
};

/// How a template takes what clients send in more than one form. Found by rendering small conversations.
struct template_traits {
  bool content_parts = false;  ///< renders a message's content given as an array of {type, text}
  bool null_content = false;   ///< renders a message whose content is null without printing None
};

/// A compiled chat template (Jinja as Hugging Face sets it up: trim_blocks, lstrip_blocks, loop controls). Immutable
/// and safe to render from any thread.
class chat_template {
 public:
  /// Errors: `template_syntax`, with line and reason; `template_recursion` when brackets or blocks nest too deep;
  /// `template_limit` for an integer beyond 127 bits.
  static result<std::shared_ptr<const chat_template>> compile(std::string_view source);
  virtual ~chat_template() = default;

  /// Renders with the variables of `context` (an object). Adjacent parts differ in trust.
  /// Errors: `template_raised` (the template's own raise_exception; message is its text), `template_undefined`,
  /// `template_type`, `template_security`, `template_limit`, `template_recursion`, `template_runtime`.
  virtual result<std::vector<rendered_part>> render(const value& context, const render_limits& limits = {},
                                                    std::int64_t now_unix_seconds = 0) const = 0;

  /// Found at the first call and kept. Thread-safe.
  virtual template_traits traits() const { return {}; }
};

}  // namespace kvern::chat
