#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "actors/service.hpp"
#include "gpu/engine/engine.hpp"
#include "model/chat/chat_template.hpp"
#include "model/tokenizer/tokenizer.hpp"

/// Builds the actors; what the daemon uses to have a service. CAF stays behind this header.
namespace kvern::actors {

struct system_options {
  std::unique_ptr<gpu::engine> engine;
  std::shared_ptr<const tokenizer> tokens;
  std::shared_ptr<const chat::chat_template> chat_template;  ///< null: the model has none
  model_info model;
  std::string fingerprint;    ///< the engine's, for files of sessions
  cache_setup cache;          ///< for status
  std::string activations;    ///< for status
  std::string prompt_lookup;  ///< for status
  std::int32_t threads = 0;   ///< for status
  std::int32_t max_sessions_per_tenant = 1024;
  int pool_threads = 2;
  /// How long the destructor waits for the worker to be idle, and then for the actors to end.
  std::chrono::milliseconds patience{5000};
};

/// The service, with its actors running. Ends them when destroyed; what will not end within the options' patience (a
/// step that never returns) is left behind, so that the destructor always comes back. Not to be destroyed or shut down
/// from an event or a reply.
class system : public service {
 public:
  static std::shared_ptr<system> start(system_options options);

  /// Stops admitting and cancels everything that runs (each generation gets its end_event with `shutting_down`).
  /// Returns when the worker is idle or `limit` is over.
  virtual void shut_down(std::chrono::milliseconds limit) = 0;
};

}  // namespace kvern::actors
