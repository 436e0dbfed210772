#pragma once

#include <string>

#include "gpu/engine/engine_impl.hpp"

namespace kvern::gpu {

/// What between two steps does not hold of an engine's sequences, frames, index and counts; empty when all does: who
/// holds and uses a frame is counted right, no page is in two tenants' tables, running sequences have every page that
/// they see, and cached frames are those that the index names.
std::string broken_invariant(const engine_impl& e);

}  // namespace kvern::gpu
