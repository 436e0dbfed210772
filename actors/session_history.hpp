#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "actors/service.hpp"
#include "base/token.hpp"

namespace kvern::actors {

/// What a session remembers between turns: exactly the tokens its client sent and was sent. Plain data; owned by the
/// session.
struct session_history {
  std::vector<token_id> tokens;
  std::int64_t committed = 0;  ///< of them with lines in the cache, as the worker last said
  std::int64_t turns = 0;
  std::int64_t created = 0;    ///< Unix seconds
  std::int64_t last_used = 0;  ///< Unix seconds
  std::optional<cache_report> last_validation;
  session_settings settings = {};
  std::int64_t forgotten = 0;  ///< lines that rotation has dropped, as the worker last said
};

}  // namespace kvern::actors
