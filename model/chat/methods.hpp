#pragma once

#include <string_view>

#include "model/chat/runtime.hpp"

namespace kvern::chat {

/// A method of a built-in type, or null. Its function takes the object as `self`.
function_node::pointer find_string_method(std::string_view name);
function_node::pointer find_container_method(const val& of, std::string_view name);

/// Methods that would change a list or dict: the sandbox hides them.
bool is_mutating(const val& of, std::string_view name);

}  // namespace kvern::chat
