#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "model/gguf/ggml_type.hpp"
#include "model/gguf/metadata.hpp"

namespace kvern::test {

/// Little-endian bytes, one field after another: for whole files by hand, where a test needs wrong ones.
class byte_builder {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> byte_builder& number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  byte_builder& u32(std::uint32_t value) { return number(value); }
  byte_builder& u64(std::uint64_t value) { return number(value); }
  /// As the format writes a string: a u64 length, then the bytes.
  byte_builder& text(std::string_view value) { return u64(value.size()).raw(value); }
  byte_builder& raw(std::string_view value) {
    bytes_.append(value);
    return *this;
  }
  byte_builder& pad(std::size_t alignment) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment, '\0');
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

inline void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// Builds GGUF files for tests. Keys and tensors are written as they are given, right or wrong; offsets, counts and
/// padding are filled in. Every call returns the writer, so that calls chain.
class gguf_test_writer {
 public:
  gguf_test_writer& version(std::uint32_t number) {
    version_ = number;
    return *this;
  }

  /// Pads with `alignment` and says so in general.alignment.
  gguf_test_writer& alignment(std::uint32_t alignment) {
    alignment_ = alignment;
    return key("general.alignment", alignment);
  }

  /// A bool, integer or float key of exactly this type.
  template <class T>
  requires std::is_arithmetic_v<T> gguf_test_writer& key(std::string_view name, T value) {
    key_head(name, type_of<T>());
    keys_.number(value);
    return *this;
  }

  gguf_test_writer& key(std::string_view name, std::string_view value) {
    key_head(name, value_type::string);
    keys_.text(value);
    return *this;
  }
  gguf_test_writer& key(std::string_view name, const char* value) { return key(name, std::string_view(value)); }

  /// An array of numbers of exactly this type.
  template <class T>
  requires std::is_arithmetic_v<T> gguf_test_writer& array(std::string_view name, const std::vector<T>& values) {
    array_head(name, type_of<T>(), values.size());
    for (const T value : values) keys_.number(value);
    return *this;
  }

  gguf_test_writer& strings(std::string_view name, std::span<const std::string> values) {
    array_head(name, value_type::string, values.size());
    for (const auto& value : values) keys_.text(value);
    return *this;
  }

  /// A key of any type number, its value's bytes as given.
  gguf_test_writer& raw_key(std::string_view name, std::uint32_t type, std::string_view value) {
    key_head(name, static_cast<value_type>(type));
    keys_.raw(value);
    return *this;
  }

  /// A tensor with these bytes; dims[0] is the length of a row.
  gguf_test_writer& tensor(std::string_view name, ggml_type type, std::vector<std::uint64_t> dims, std::string data) {
    return raw_tensor(name, static_cast<std::uint32_t>(type), std::move(dims), std::move(data));
  }

  gguf_test_writer& tensor(std::string_view name, std::vector<std::uint64_t> dims, std::span<const float> values) {
    return tensor(name, ggml_type::f32, std::move(dims),
                  std::string(reinterpret_cast<const char*>(values.data()), values.size_bytes()));
  }

  /// A tensor of any type number.
  gguf_test_writer& raw_tensor(std::string_view name, std::uint32_t type, std::vector<std::uint64_t> dims,
                               std::string data) {
    tensors_.push_back({std::string(name), type, std::move(dims), std::move(data)});
    return *this;
  }

  /// The whole file; the last tensor's data is not padded.
  std::string build() const {
    byte_builder file;
    file.raw("GGUF").u32(version_).u64(tensors_.size()).u64(key_count_).raw(keys_.bytes());
    byte_builder data;
    for (const auto& tensor : tensors_) {
      data.pad(alignment_);
      file.text(tensor.name).u32(static_cast<std::uint32_t>(tensor.dims.size()));
      for (const auto dim : tensor.dims) file.u64(dim);
      file.u32(tensor.type).u64(data.bytes().size());
      data.raw(tensor.data);
    }
    if (!tensors_.empty()) file.pad(alignment_);
    return file.raw(data.bytes()).bytes();
  }

  void write(const std::filesystem::path& path) const { write_file(path, build()); }

 private:
  struct written_tensor {
    std::string name;
    std::uint32_t type;
    std::vector<std::uint64_t> dims;
    std::string data;
  };

  template <class T>
  static constexpr value_type type_of() {
    if constexpr (std::is_same_v<T, bool>) {
      return value_type::boolean;
    } else if constexpr (std::is_floating_point_v<T>) {
      return sizeof(T) == 4 ? value_type::f32 : value_type::f64;
    } else {
      constexpr bool negative = std::is_signed_v<T>;
      switch (sizeof(T)) {
        case 1:
          return negative ? value_type::i8 : value_type::u8;
        case 2:
          return negative ? value_type::i16 : value_type::u16;
        case 4:
          return negative ? value_type::i32 : value_type::u32;
        default:
          return negative ? value_type::i64 : value_type::u64;
      }
    }
  }

  void key_head(std::string_view name, value_type type) {
    ++key_count_;
    keys_.text(name).u32(static_cast<std::uint32_t>(type));
  }

  void array_head(std::string_view name, value_type element, std::size_t count) {
    key_head(name, value_type::array);
    keys_.u32(static_cast<std::uint32_t>(element)).u64(count);
  }

  std::uint32_t version_ = 3;
  std::uint32_t alignment_ = 32;
  std::uint64_t key_count_ = 0;
  byte_builder keys_;
  std::vector<written_tensor> tensors_;
};

}  // namespace kvern::test
