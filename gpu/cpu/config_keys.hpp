#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "model/gguf/gguf.hpp"

namespace kvern::gpu::cpu {

/// Reads the keys of one architecture and remembers the first failure, so that a reader of many keys checks once. After
/// a failure every read gives a harmless value. `file` must outlive this.
class config_keys {
 public:
  /// Names are those after `prefix` and a dot, e.g. "block_count" of "llama".
  config_keys(const gguf_file& file, std::string_view prefix) : file_(file), prefix_(prefix) {}

  std::optional<error> failure;

  bool has(std::string_view name) const { return file_.has(key(name)); }
  bool is_array(std::string_view name) const { return file_.is_array(key(name)); }

  /// From `least` to `most`; the key must be there unless `absent` stands for it.
  std::int64_t count(std::string_view name, std::int64_t most, std::optional<std::int64_t> absent = std::nullopt,
                     std::int64_t least = 1);
  double number(std::string_view name, double least, double most, std::optional<double> absent = std::nullopt);
  std::string_view text(std::string_view name, std::string_view absent);

  /// The values of an array of `layers` integers or booleans, each from `least` to `most`; empty after a failure.
  std::vector<std::int32_t> array(std::string_view name, std::int64_t layers, std::int64_t least, std::int64_t most);
  /// A count for each layer: one number for all, or an array of `layers`.
  std::vector<std::int32_t> per_layer(std::string_view name, std::int64_t layers, std::int64_t most,
                                      std::optional<std::int64_t> absent = std::nullopt);

  /// Makes "the key ... `what`" the failure, if it is the first.
  void refuse(std::string_view name, std::string_view what, std::string code = "model_invalid");

 private:
  std::string key(std::string_view name) const;

  const gguf_file& file_;
  std::string prefix_;
};

}  // namespace kvern::gpu::cpu
