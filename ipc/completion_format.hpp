#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "actors/service.hpp"

namespace kvern::ipc {

/// What all parts of one answer have in common.
struct completion_head {
  std::string id;
  std::int64_t created = 0;  ///< Unix seconds
  std::string model;
};

/// `{"id","object","created","model"}`.
boost::json::object envelope(const completion_head& head, std::string_view object);

/// "stop", "length", "cancelled" or "error".
std::string_view name_of(gpu::finish_reason reason);

/// `{"reused","shared","computed","reason","first_divergence"}`.
boost::json::object to_json(const cache_report& cache);

/// `{"queued_ms","prompt_ms","generate_ms","prompt_tokens_per_second","generate_tokens_per_second"}`: prompt tokens
/// computed over prompt_ms; tokens after the first over generate_ms. 0 where nothing was measured.
boost::json::object timings(const end_event& end, std::int64_t computed);

/// `{"policy"}` of what was done about a full context; of a rotation `keep` and `forgotten` too.
boost::json::object to_json(const overflow_report& overflow);

/// `{"cache","timings"}`; when a stop string was met, `stop_string`; when the context was full, `overflow`.
boost::json::object extension(const cache_report& cache, const end_event& end);

struct token_usage {
  std::int64_t prompt = 0;
  std::int64_t completion = 0;
  std::int64_t cached = 0;
  std::int64_t drafted = 0;   ///< by prompt lookup
  std::int64_t accepted = 0;  ///< of them
};

/// OpenAI's usage object.
boost::json::object to_json(const token_usage& usage);

boost::json::array to_json(std::span<const token_id> tokens);

}  // namespace kvern::ipc
