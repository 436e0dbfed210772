#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "actors/service.hpp"
#include "base/token.hpp"

namespace kvern::actors {

/// What of a session's tokens serves a prompt.
struct prefix_match {
  std::int64_t keep = 0;  ///< tokens of the session that stay; less than the prompt's length: its last token is run
  cache_reason reason = cache_reason::empty;
  std::optional<std::int64_t> first_divergence;  ///< with `mismatch`: the first position where both differ
};

/// Compares the tokens a session has with a new prompt (not empty).
///   nothing cached                    -> empty
///   the prompt begins with all of it  -> extends, keeps all
///   equal                             -> same, keeps all but the last
///   the prompt is a proper prefix     -> shorter, keeps all of the prompt but its last
///   else                              -> mismatch, keeps the common prefix
prefix_match validate_prefix(std::span<const token_id> cached, std::span<const token_id> prompt);

}  // namespace kvern::actors
