#include "ipc/metrics.hpp"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <utility>
#include <vector>

namespace kvern::ipc {
namespace {

class page {
 public:
  template <class T>
  void counter(const char* name, const char* help, T value) {
    prometheus::ClientMetric m;
    m.counter.value = static_cast<double>(value);
    add(name, help, prometheus::MetricType::Counter, std::move(m));
  }

  template <class T>
  void gauge(const char* name, const char* help, T value, std::vector<prometheus::ClientMetric::Label> labels = {}) {
    prometheus::ClientMetric m;
    m.gauge.value = static_cast<double>(value);
    m.label = std::move(labels);
    add(name, help, prometheus::MetricType::Gauge, std::move(m));
  }

  std::string text() const { return prometheus::TextSerializer().Serialize(families_); }

 private:
  void add(const char* name, const char* help, prometheus::MetricType type, prometheus::ClientMetric metric) {
    families_.push_back({name, help, type, {std::move(metric)}});
  }

  std::vector<prometheus::MetricFamily> families_;
};

}  // namespace

std::string metrics_page(const service_stats& stats, const model_info& model, std::int64_t connections) {
  const gpu::engine_stats& e = stats.engine;
  page p;
  p.gauge("kvern_model_info", "The model that is served; always 1.", 1,
          {{"id", model.id},
           {"architecture", model.architecture},
           {"file_type", model.file_type},
           {"kv_type", stats.cache.kv_type},
           {"kernels", stats.backend.kernels}});
  p.gauge("kvern_uptime_seconds", "Seconds since the daemon started.", stats.uptime_seconds);
  p.gauge("kvern_worker_up", "Whether the worker lives (1) or died (0).", stats.worker_alive ? 1 : 0);
  p.gauge("kvern_worker_heartbeat_age_seconds", "Seconds since the worker last showed life.",
          stats.heartbeat_age_seconds);
  p.counter("kvern_requests_total", "Generation requests received.", stats.requests);
  p.counter("kvern_requests_refused_total", "Generation requests refused before anything ran.", stats.refused);
  p.counter("kvern_turns_total", "Turns taken by the engine.", e.turns);
  p.counter("kvern_turns_failed_total", "Turns that ended in an error.", e.failed_turns);
  p.counter("kvern_turns_preempted_total", "Times a turn gave its pages back and was put in the queue again.",
            e.preempted_turns);
  p.counter("kvern_prompt_tokens_total", "Prompt tokens computed.", e.prompt_tokens);
  p.counter("kvern_prompt_tokens_reused_total", "Prompt tokens served from the cache.", e.reused_tokens);
  p.counter("kvern_prompt_tokens_shared_total", "Of the reused prompt tokens, those that other sessions computed.",
            e.shared_tokens);
  p.counter("kvern_generated_tokens_total", "Tokens generated.", e.generated_tokens);
  p.counter("kvern_drafted_tokens_total", "Tokens guessed by prompt lookup.", e.drafted_tokens);
  p.counter("kvern_drafted_tokens_accepted_total", "Of the guessed tokens, those that were right.", e.accepted_tokens);
  p.counter("kvern_steps_total", "Forward steps.", e.steps);
  p.counter("kvern_step_seconds_total", "Seconds the worker spent in forward steps.", e.step_seconds);
  p.counter("kvern_backend_seconds_total", "Of the steps' seconds, those in the model itself.", e.backend_seconds);
  p.counter("kvern_between_seconds_total", "Seconds between steps while there was work.", e.between_seconds);
  p.counter("kvern_pages_evicted_total", "Cached pages evicted.", e.evicted_pages);
  p.counter("kvern_pages_copied_total", "Shared pages copied before they were written.", e.copied_pages);
  p.gauge("kvern_turns_running", "Turns in the running batch.", e.running);
  p.gauge("kvern_turns_queued", "Turns that wait.", e.queued);
  p.gauge("kvern_sequences", "Sequences the engine knows.", e.sequences);
  p.gauge("kvern_sessions", "Sessions.", stats.sessions);
  p.gauge("kvern_connections", "Open client connections.", connections);
  p.gauge("kvern_pages_used", "Cache pages in use.", e.pages_used);
  p.gauge("kvern_pages_shared", "Cache pages that more than one session uses.", e.pages_shared);
  p.gauge("kvern_pages_capacity", "Cache pages there are.", e.pages_total);
  p.gauge("kvern_page_bytes", "Bytes of a cache page.", stats.backend.page_bytes);
  p.gauge("kvern_weight_bytes", "Bytes of resident weights.", stats.backend.weight_bytes);
  p.gauge("kvern_context_tokens", "Positions a session may have.", model.context);
  p.gauge("kvern_threads", "Compute threads.", stats.threads);
  return p.text();
}

}  // namespace kvern::ipc
