#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace kvern {

/// Types of a metadata value, numbered as in the file.
enum class value_type : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

/// Bytes of a number or boolean; 0 for strings, arrays and numbers that are no type.
std::size_t scalar_size(value_type type);

/// The type's name in messages, e.g. "uint32"; "unknown" for a number that is no type.
std::string_view type_name(value_type type);

/// A value still as the file holds it; `bytes` points into the mapping and has been checked to be whole.
struct metadata_value {
  std::string_view key;
  value_type type = value_type::u8;
  value_type element = value_type::u8;  ///< of an array; never itself an array
  std::uint64_t count = 0;              ///< elements of an array
  /// The number; the text of a string; the elements of an array, one after another (strings with their u64 lengths).
  std::span<const std::byte> bytes;
};

/// The keys of one file, decoded when asked for. Views point into the mapping. Immutable and safe to read from any
/// thread. Conversions and errors are those of gguf_file.
class metadata {
 public:
  metadata() = default;

  /// `label` begins every message. Errors: `model_invalid` when a key stands twice.
  static result<metadata> create(std::string label, std::vector<metadata_value> values);

  const metadata_value* find(std::string_view key) const;

  result<std::optional<std::uint64_t>> find_uint(std::string_view key) const;
  result<std::optional<double>> find_float(std::string_view key) const;
  result<std::optional<bool>> find_bool(std::string_view key) const;
  result<std::optional<std::string_view>> find_string(std::string_view key) const;
  result<std::optional<std::vector<std::string_view>>> find_strings(std::string_view key) const;
  result<std::optional<std::vector<std::int64_t>>> find_ints(std::string_view key) const;
  result<std::optional<std::vector<float>>> find_floats(std::string_view key) const;

  result<std::uint64_t> get_uint(std::string_view key) const;
  result<double> get_float(std::string_view key) const;
  result<std::string_view> get_string(std::string_view key) const;

 private:
  std::unexpected<error> wrong_type(const metadata_value& value, std::string_view wanted) const;
  std::unexpected<error> out_of_range(const metadata_value& value, std::string_view wanted) const;
  std::unexpected<error> absent(std::string_view key) const;

  std::string label_;
  std::vector<metadata_value> values_;  ///< by key
};

}  // namespace kvern
