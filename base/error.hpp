#pragma once

#include <expected>
#include <string>
#include <utility>

namespace kvern {

/// Why something could not be done. `code` is stable (clients and tests compare it); `message` is a sentence that tells
/// its reader what to do. Neither holds prompt text.
struct error {
  std::string code;
  std::string message;

  friend bool operator==(const error&, const error&) = default;
};

template <class T>
using result = std::expected<T, error>;

[[nodiscard]] inline std::unexpected<error> fail(std::string code, std::string message) {
  return std::unexpected<error>(error{std::move(code), std::move(message)});
}

}  // namespace kvern
