#pragma once

#include "model/chat/runtime.hpp"

namespace kvern::chat {

/// HTML escapes of str(v), as a markup string; a markup string is itself. Trust is kept.
val escaped(runtime& rt, const val& v, bool force = false);
/// Without tags and comments, white space collapsed, entities resolved.
val stripped_of_tags(runtime& rt, const val& v);
/// Percent encoding; `/` stays when `slashes`.
val percent_encoded(runtime& rt, const val& v, bool slashes);

}  // namespace kvern::chat
