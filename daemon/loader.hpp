#pragma once

#include <functional>
#include <memory>

#include "actors/system.hpp"
#include "base/error.hpp"
#include "daemon/config.hpp"

namespace kvern::daemon {

/// Loads what `c` names into what the actors need: model file, tokenizer, chat template, backend, engine.
/// `progress`: share of the weights packed, 0 to 1. Errors: those of the parts, each with what to do.
result<actors::system_options> load(const config& c, const std::function<void(double)>& progress);

}  // namespace kvern::daemon
