#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "model/gguf/ggml_type.hpp"

namespace kvern {

/// A matrix or vector of the file. `dims[0]` is the length of a row (contiguous); unused dims are 1.
struct gguf_tensor {
  std::string name;
  ggml_type type = ggml_type::f32;
  int n_dims = 0;
  std::array<std::uint64_t, 4> dims{1, 1, 1, 1};
  std::span<const std::byte> data;  ///< points into the mapping; lives as long as the gguf_file

  std::uint64_t row_length() const { return dims[0]; }
  std::uint64_t rows() const { return dims[1] * dims[2] * dims[3]; }
  std::uint64_t elements() const { return dims[0] * rows(); }
};

/// A GGUF v2 or v3 model, mapped read-only: one file, or all shards of a split model (opened by its first shard).
/// Immutable and safe to read from any thread.
///
/// Every count, length, offset and product is checked against the bytes there are before it is used.
/// Errors: `model_missing`, `model_unreadable` (a directory, no permission), `model_truncated`, `model_invalid`,
/// `model_unsupported` (another version, byte order or tensor type); messages name the field and the file's name, not
/// its path.
///
/// Out of scope: the file must not be shortened or rewritten while it is open. The mapping follows the file, so reading
/// what was cut off afterwards raises SIGBUS. Replace a model by renaming a new file over it.
class gguf_file {
 public:
  static result<std::shared_ptr<const gguf_file>> open(const std::filesystem::path& path);
  ~gguf_file();

  /// A key's value. An integer key of any width converts when its value fits; a wrong type or range is an error
  /// (`model_invalid`), an absent key is nullopt.
  result<std::optional<std::uint64_t>> find_uint(std::string_view key) const;
  result<std::optional<double>> find_float(std::string_view key) const;
  result<std::optional<bool>> find_bool(std::string_view key) const;
  result<std::optional<std::string_view>> find_string(std::string_view key) const;
  result<std::optional<std::vector<std::string_view>>> find_strings(std::string_view key) const;
  /// Arrays of integers (of any width and sign, or booleans) and of floats.
  result<std::optional<std::vector<std::int64_t>>> find_ints(std::string_view key) const;
  result<std::optional<std::vector<float>>> find_floats(std::string_view key) const;
  bool has(std::string_view key) const;
  /// Whether `key` is there and holds an array.
  bool is_array(std::string_view key) const;

  /// The same, but absence is an error that names the key.
  result<std::uint64_t> get_uint(std::string_view key) const;
  result<double> get_float(std::string_view key) const;
  result<std::string_view> get_string(std::string_view key) const;

  std::span<const gguf_tensor> tensors() const;
  const gguf_tensor* find_tensor(std::string_view name) const;

  /// Name of the (first) file, without folders.
  std::string_view file_name() const;
  /// Of all shards together.
  std::uint64_t file_bytes() const;

  /// The whole content of each shard, in order. Points into the mappings.
  std::vector<std::span<const std::byte>> contents() const;

  /// Tells the kernel that the mapping's pages of `tensor` are not needed soon (after repacking).
  void forget(const gguf_tensor& tensor) const;

 private:
  struct impl;
  explicit gguf_file(std::unique_ptr<impl> i);
  std::unique_ptr<impl> impl_;
};

}  // namespace kvern
