#include "ipc/completion_format.hpp"

#include <boost/json/array.hpp>
#include <cmath>

namespace kvern::ipc {
namespace {

namespace json = boost::json;

double finite(double d) { return std::isfinite(d) ? d : 0; }

double rate(std::int64_t tokens, double ms) {
  return tokens > 0 && ms > 0 ? finite(static_cast<double>(tokens) * 1000 / ms) : 0;
}

}  // namespace

json::object envelope(const completion_head& head, std::string_view object) {
  json::object o;
  o.reserve(8);
  o["id"] = head.id;
  o["object"] = object;
  o["created"] = head.created;
  o["model"] = head.model;
  return o;
}

std::string_view name_of(gpu::finish_reason reason) {
  switch (reason) {
    case gpu::finish_reason::stop:
      return "stop";
    case gpu::finish_reason::length:
      return "length";
    case gpu::finish_reason::cancelled:
      return "cancelled";
    case gpu::finish_reason::failed:
      return "error";
  }
  return "error";
}

json::object to_json(const cache_report& cache) {
  json::object o;
  o["reused"] = cache.reused;
  o["shared"] = cache.shared;
  o["computed"] = cache.computed;
  o["reason"] = to_string(cache.reason);
  o["first_divergence"] = cache.first_divergence ? json::value(*cache.first_divergence) : json::value(nullptr);
  return o;
}

json::object to_json(const overflow_report& overflow) {
  json::object o;
  o["policy"] = to_string(overflow.policy);
  if (overflow.policy == gpu::overflow_policy::rotate) {
    o["keep"] = overflow.keep;
    o["forgotten"] = overflow.forgotten;
  }
  return o;
}

json::object timings(const end_event& end, std::int64_t computed) {
  json::object o;
  o["queued_ms"] = finite(end.queued_ms);
  o["prompt_ms"] = finite(end.prompt_ms);
  o["generate_ms"] = finite(end.generate_ms);
  o["prompt_tokens_per_second"] = rate(computed, end.prompt_ms);
  o["generate_tokens_per_second"] = rate(end.completion_tokens - 1, end.generate_ms);
  return o;
}

json::object extension(const cache_report& cache, const end_event& end) {
  json::object o;
  o["cache"] = to_json(cache);
  o["timings"] = timings(end, cache.computed);
  if (!end.stop_string.empty()) o["stop_string"] = end.stop_string;
  if (end.overflow) o["overflow"] = to_json(*end.overflow);
  return o;
}

json::object to_json(const token_usage& usage) {
  json::object o;
  o["prompt_tokens"] = usage.prompt;
  o["completion_tokens"] = usage.completion;
  o["total_tokens"] = usage.prompt + usage.completion;
  o["prompt_tokens_details"] = json::object{{"cached_tokens", usage.cached}};
  o["completion_tokens_details"] = json::object{{"accepted_prediction_tokens", usage.accepted},
                                                {"rejected_prediction_tokens", usage.drafted - usage.accepted}};
  return o;
}

json::array to_json(std::span<const token_id> tokens) {
  json::array a;
  a.reserve(tokens.size());
  for (const token_id t : tokens) a.emplace_back(t);
  return a;
}

}  // namespace kvern::ipc
