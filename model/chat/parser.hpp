#pragma once

#include <memory>
#include <string_view>

#include "base/error.hpp"
#include "model/chat/ast.hpp"

namespace kvern::chat {

/// Parses template source. Errors: `template_syntax`; `template_recursion` when brackets or blocks nest deeper than
/// `ast::max_nesting`. Both name the line.
result<std::unique_ptr<const ast::tree>> parse(std::string_view source);

}  // namespace kvern::chat
