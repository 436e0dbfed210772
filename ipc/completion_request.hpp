#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "actors/service.hpp"
#include "ipc/errors.hpp"

namespace kvern::ipc {

enum class completion_kind {
  chat,  ///< /v1/chat/completions
  text,  ///< /v1/completions
};

/// The path of the endpoint.
std::string_view path_of(completion_kind kind);

/// A validated request for one or several generations: `n` for each prompt.
struct completion_request {
  completion_kind kind = completion_kind::chat;
  std::vector<kvern::prompt> prompts;  ///< at least one
  std::int32_t n = 1;
  generation_request common;  ///< all but prompt and the choice's seed
  bool stream = false;
  bool include_usage = false;
  bool include_progress = false;
  bool return_token_ids = false;

  std::size_t choices() const { return prompts.size() * static_cast<std::size_t>(n); }

  /// The request of choice `index`: prompt index / n, seed (where one is given) + index % n.
  generation_request choice(std::size_t index) const;
};

/// Reads the body of a completion request. Fields that ask for what is not offered are refused by name (`unsupported`);
/// unknown fields are ignored. Errors: `invalid_json`, `invalid_request`, `unsupported`, `model_not_found`.
parsed<completion_request> parse_completion(completion_kind kind, std::string_view body, const model_info& model);

/// Whether a request's `model` means this model: its id, with or without ".gguf".
bool names_model(std::string_view name, const model_info& model);

}  // namespace kvern::ipc
