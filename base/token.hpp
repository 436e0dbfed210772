#pragma once

#include <cstdint>

namespace kvern {

/// An entry of the model's vocabulary, 0-based.
using token_id = std::int32_t;

}  // namespace kvern
