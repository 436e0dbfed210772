#pragma once

#include <cstdint>
#include <string>

#include "actors/service.hpp"

namespace kvern::ipc {

/// The service's counters and gauges as a Prometheus text page (format 0.0.4); all names begin with "kvern_".
std::string metrics_page(const service_stats& stats, const model_info& model, std::int64_t connections);

inline constexpr const char* metrics_type = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace kvern::ipc
