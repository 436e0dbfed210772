#include "model/gguf/metadata.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "model/gguf/byte_reader.hpp"
#include "model/gguf/quoted_name.hpp"

namespace kvern {

namespace {

struct type_entry {
  std::string_view name;
  std::size_t size;
};

constexpr std::array<type_entry, 13> type_entries{{{"uint8", 1},
                                                   {"int8", 1},
                                                   {"uint16", 2},
                                                   {"int16", 2},
                                                   {"uint32", 4},
                                                   {"int32", 4},
                                                   {"float32", 4},
                                                   {"bool", 1},
                                                   {"string", 0},
                                                   {"array", 0},
                                                   {"uint64", 8},
                                                   {"int64", 8},
                                                   {"float64", 8}}};

/// An integer of any width: two's complement in 64 bits, and whether it is below zero.
struct wide_integer {
  std::uint64_t bits;
  bool negative;
};

template <class T>
wide_integer widen(std::span<const std::byte> bytes) {
  const T value = load<T>(bytes);
  if constexpr (std::is_signed_v<T>) {
    return {static_cast<std::uint64_t>(static_cast<std::int64_t>(value)), value < 0};
  } else {
    return {value, false};
  }
}

std::optional<wide_integer> read_integer(value_type type, std::span<const std::byte> bytes) {
  switch (type) {
    case value_type::u8:
      return widen<std::uint8_t>(bytes);
    case value_type::i8:
      return widen<std::int8_t>(bytes);
    case value_type::u16:
      return widen<std::uint16_t>(bytes);
    case value_type::i16:
      return widen<std::int16_t>(bytes);
    case value_type::u32:
      return widen<std::uint32_t>(bytes);
    case value_type::i32:
      return widen<std::int32_t>(bytes);
    case value_type::u64:
      return widen<std::uint64_t>(bytes);
    case value_type::i64:
      return widen<std::int64_t>(bytes);
    default:
      return std::nullopt;
  }
}

std::string described_type(const metadata_value& value) {
  if (value.type != value_type::array) return std::string(type_name(value.type));
  return fmt::format("array of {}", type_name(value.element));
}

}  // namespace

std::size_t scalar_size(value_type type) {
  const auto number = static_cast<std::size_t>(type);
  return number < type_entries.size() ? type_entries[number].size : 0;
}

std::string_view type_name(value_type type) {
  const auto number = static_cast<std::size_t>(type);
  return number < type_entries.size() ? type_entries[number].name : "unknown";
}

result<metadata> metadata::create(std::string label, std::vector<metadata_value> values) {
  std::ranges::sort(values, {}, &metadata_value::key);
  const auto twice = std::ranges::adjacent_find(values, {}, &metadata_value::key);
  if (twice != values.end()) {
    return fail("model_invalid", fmt::format("{}: the key {} stands twice; the file is damaged or was written wrongly.",
                                             label, quoted_name(twice->key)));
  }
  metadata made;
  made.label_ = std::move(label);
  made.values_ = std::move(values);
  return made;
}

const metadata_value* metadata::find(std::string_view key) const {
  const auto at = std::ranges::lower_bound(values_, key, {}, &metadata_value::key);
  return at != values_.end() && at->key == key ? &*at : nullptr;
}

std::unexpected<error> metadata::wrong_type(const metadata_value& value, std::string_view wanted) const {
  return fail("model_invalid", fmt::format("{}: the key {} is of type {} where {} is needed; convert the model again.",
                                           label_, quoted_name(value.key), described_type(value), wanted));
}

std::unexpected<error> metadata::out_of_range(const metadata_value& value, std::string_view wanted) const {
  return fail("model_invalid", fmt::format("{}: the key {} is out of range for {}; convert the model again.", label_,
                                           quoted_name(value.key), wanted));
}

std::unexpected<error> metadata::absent(std::string_view key) const {
  return fail("model_invalid",
              fmt::format("{}: the key {} is missing; the file is no complete model.", label_, quoted_name(key)));
}

result<std::optional<std::uint64_t>> metadata::find_uint(std::string_view key) const {
  const metadata_value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = read_integer(value->type, value->bytes);
  if (!number) return wrong_type(*value, "an integer");
  if (number->negative) return out_of_range(*value, "an integer from 0 up");
  return number->bits;
}

result<std::optional<double>> metadata::find_float(std::string_view key) const {
  const metadata_value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type == value_type::f32) return static_cast<double>(load<float>(value->bytes));
  if (value->type == value_type::f64) return load<double>(value->bytes);
  return wrong_type(*value, "a float");
}

result<std::optional<bool>> metadata::find_bool(std::string_view key) const {
  const metadata_value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != value_type::boolean) return wrong_type(*value, "a bool");
  return value->bytes[0] != std::byte{0};
}

result<std::optional<std::string_view>> metadata::find_string(std::string_view key) const {
  const metadata_value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != value_type::string) return wrong_type(*value, "a string");
  return as_text(value->bytes);
}

result<std::optional<std::vector<std::string_view>>> metadata::find_strings(std::string_view key) const {
  const metadata_value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != value_type::array || value->element != value_type::string) {
    return wrong_type(*value, "an array of strings");
  }
  std::vector<std::string_view> texts;
  texts.reserve(value->count);
  byte_reader reader(value->bytes);
  while (const auto text = reader.read_string()) texts.push_back(*text);
  return texts;
}

result<std::optional<std::vector<std::int64_t>>> metadata::find_ints(std::string_view key) const {
  const metadata_value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != value_type::array) return wrong_type(*value, "an array of integers");
  const value_type element = value->element == value_type::boolean ? value_type::u8 : value->element;
  const std::size_t size = scalar_size(element);
  if (size == 0 || element == value_type::f32 || element == value_type::f64) {
    return wrong_type(*value, "an array of integers");
  }
  std::vector<std::int64_t> numbers;
  numbers.reserve(value->count);
  for (std::size_t at = 0; at < value->bytes.size(); at += size) {
    const auto number = read_integer(element, value->bytes.subspan(at));
    if (!number->negative && number->bits > std::numeric_limits<std::int64_t>::max()) {
      return out_of_range(*value, "integers of 64 bits with a sign");
    }
    numbers.push_back(static_cast<std::int64_t>(number->bits));
  }
  return numbers;
}

result<std::optional<std::vector<float>>> metadata::find_floats(std::string_view key) const {
  const metadata_value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const bool wide = value->element == value_type::f64;
  if (value->type != value_type::array || (!wide && value->element != value_type::f32)) {
    return wrong_type(*value, "an array of floats");
  }
  const std::size_t size = scalar_size(value->element);
  std::vector<float> numbers;
  numbers.reserve(value->count);
  for (std::size_t at = 0; at < value->bytes.size(); at += size) {
    const auto bytes = value->bytes.subspan(at);
    if (wide) {
      const auto number = load<double>(bytes);
      if (std::isfinite(number) && std::fabs(number) > std::numeric_limits<float>::max()) {
        return out_of_range(*value, "floats of 32 bits");
      }
      numbers.push_back(static_cast<float>(number));
    } else {
      numbers.push_back(load<float>(bytes));
    }
  }
  return numbers;
}

result<std::uint64_t> metadata::get_uint(std::string_view key) const {
  const auto found = find_uint(key);
  if (!found) return std::unexpected(found.error());
  if (!*found) return absent(key);
  return **found;
}

result<double> metadata::get_float(std::string_view key) const {
  const auto found = find_float(key);
  if (!found) return std::unexpected(found.error());
  if (!*found) return absent(key);
  return **found;
}

result<std::string_view> metadata::get_string(std::string_view key) const {
  const auto found = find_string(key);
  if (!found) return std::unexpected(found.error());
  if (!*found) return absent(key);
  return **found;
}

}  // namespace kvern
