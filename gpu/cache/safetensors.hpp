#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

/// The safetensors format: a u64 (little-endian) length, a JSON header of that length, and the tensors' data without
/// holes. Pure; safe from any thread.
namespace kvern::gpu {

enum class tensor_type { i8, i32, f16, bf16, f32 };

constexpr std::size_t bytes_of(tensor_type type) {
  switch (type) {
    case tensor_type::i8:
      return 1;
    case tensor_type::f16:
    case tensor_type::bf16:
      return 2;
    case tensor_type::i32:
    case tensor_type::f32:
      return 4;
  }
  return 0;
}

struct tensor_spec {
  std::string name;
  tensor_type type = tensor_type::f32;
  std::vector<std::uint64_t> shape;

  friend bool operator==(const tensor_spec&, const tensor_spec&) = default;
};

/// A tensor of a file that was read. `data` points into the file: its size is the spec's.
struct file_tensor {
  tensor_spec spec;
  std::span<const std::byte> data;
};

using file_metadata = std::map<std::string, std::string, std::less<>>;

/// A file that was read.
struct safetensors_file {
  file_metadata metadata;
  std::map<std::string, file_tensor, std::less<>> tensors;

  /// Null: there is none.
  const file_tensor* find(std::string_view name) const;
};

/// Reads a file whose header has at most `max_header` bytes. `file` must outlive the result. Every length, type, shape
/// and offset is checked: tensors have exactly the bytes their shape says, do not overlap, and leave nothing over.
/// Errors: `invalid_session_file`.
result<safetensors_file> read_safetensors(std::span<const std::byte> file, std::uint64_t max_header);

/// A file in the making: the header is written, the data is for the caller to fill in, and zero until then.
class safetensors_writer {
 public:
  /// Names must differ; sizes must fit in memory.
  safetensors_writer(const file_metadata& metadata, std::span<const tensor_spec> tensors);

  /// The bytes of tensor `index`, valid until take().
  std::span<std::byte> data(std::size_t index);

  std::string take() { return std::move(file_); }

 private:
  std::string file_;
  std::vector<std::pair<std::size_t, std::size_t>> places_;  ///< of each tensor's data in the file: offset, bytes
};

}  // namespace kvern::gpu
