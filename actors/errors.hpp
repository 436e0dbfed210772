#pragma once

#include <string>

#include "base/error.hpp"

/// The errors of the service that more than one part reports. Codes are those of actors/service.hpp.
namespace kvern::actors {

inline error shutting_down() { return {"shutting_down", "The service is stopping; try again when it runs."}; }

inline error session_not_found() {
  return {"session_not_found", "There is no such session; create one, or list those there are."};
}

inline error session_busy() {
  return {"session_busy", "The session has a turn that runs; wait for its end or cancel it."};
}

/// `what`: the reason as the worker gave it.
inline error worker_failed(const std::string& what) {
  return {"worker_failed", "The inference worker failed (" + what + "); the service must be restarted."};
}

inline error internal_error() {
  return {"internal_error", "The request could not be served because of an internal error; try again."};
}

}  // namespace kvern::actors
