#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "model/gguf/gguf.hpp"
#include "model/gguf/metadata.hpp"

namespace kvern {

/// What the bytes of one GGUF file hold. Values and tensor data point into those bytes.
struct parsed_file {
  metadata keys;
  std::vector<gguf_tensor> tensors;  ///< in file order, names all different
};

/// Reads the head of a GGUF file. Nothing outside `bytes` is read; memory used is bounded by a small multiple of their
/// number. `label` (the file's name, quoted) begins every message.
/// Errors: `model_truncated`, `model_invalid`, `model_unsupported` (version, byte order, tensor type, nested arrays).
result<parsed_file> parse_gguf(std::span<const std::byte> bytes, std::string_view label);

/// `model_invalid` when two of `tensors` share a name.
result<void> check_names_differ(std::span<const gguf_tensor> tensors, std::string_view label);

}  // namespace kvern
