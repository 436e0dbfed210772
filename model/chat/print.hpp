#pragma once

#include <string>

#include "model/chat/runtime.hpp"

namespace kvern::chat {

/// What Python's str() gives. A string is itself, with its trust; text made of anything else is untrusted.
val str_of(runtime& rt, const val& v);
/// What Python's repr() gives; untrusted.
val repr_of(runtime& rt, const val& v);

/// The shortest decimal that reads back as `d`, written as Python does: "1.0", "1e+16", "inf".
std::string real_repr(double d);
std::string integer_repr(wide i);

}  // namespace kvern::chat
