#pragma once

#include <cstdint>
#include <optional>

#include "actors/service.hpp"
#include "ipc/json_reader.hpp"

namespace kvern::ipc {

/// `overflow`: "error", "stop" or "rotate". A wrong one is recorded in `body`.
std::optional<gpu::overflow_policy> read_overflow(fields& body);

/// `keep`: lines that stay when the oldest are forgotten; 0 or more. Recorded in `body` as wrong where `overflow` is
/// not "rotate", unless it was left out and is the session's to say (`decided`: it is not).
std::optional<std::int64_t> read_keep(fields& body, std::optional<gpu::overflow_policy> overflow, bool decided);

}  // namespace kvern::ipc
