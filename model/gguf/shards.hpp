#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "model/gguf/file_mapping.hpp"
#include "model/gguf/parse.hpp"

namespace kvern {

/// The parts of a shard's file name, NAME-00002-of-00003.gguf. Numbers are 1-based here; the key split.no is 0-based.
struct shard_name {
  std::string base;  ///< NAME
  std::uint32_t number = 0;
  std::uint32_t count = 0;

  /// Nullopt when `file_name` is no shard's name.
  static std::optional<shard_name> parse(std::string_view file_name);
  /// The file name of shard `n` (1-based) of the same model.
  std::string of(std::uint32_t n) const;
};

/// A model's files, mapped and read: one, or all shards. Values and tensor data point into the mappings.
struct opened_model {
  std::vector<file_mapping> mappings;
  metadata keys;  ///< of the first file
  std::vector<gguf_tensor> tensors;
};

/// Opens the file at `path` and, when its keys say that it is the first of several shards, the others beside it.
/// Errors: as gguf_file::open.
result<opened_model> open_model(const std::filesystem::path& path);

}  // namespace kvern
