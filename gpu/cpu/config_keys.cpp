#include "gpu/cpu/config_keys.hpp"

#include <fmt/format.h>

#include <utility>

namespace kvern::gpu::cpu {

std::string config_keys::key(std::string_view name) const { return fmt::format("{}.{}", prefix_, name); }

void config_keys::refuse(std::string_view name, std::string_view what, std::string code) {
  if (!failure) failure = error{std::move(code), fmt::format("{}: the key {} {}.", file_.file_name(), key(name), what)};
}

std::int64_t config_keys::count(std::string_view name, std::int64_t most, std::optional<std::int64_t> absent,
                                std::int64_t least) {
  if (failure) return least;
  const auto value = file_.find_uint(key(name));
  if (!value) {
    failure = value.error();
  } else if (!*value) {
    if (absent) return *absent;
    refuse(name, "is missing");
  } else if (**value < static_cast<std::uint64_t>(least) || **value > static_cast<std::uint64_t>(most)) {
    refuse(name, fmt::format("is {}, not between {} and {}", **value, least, most));
  } else {
    return static_cast<std::int64_t>(**value);
  }
  return least;
}

double config_keys::number(std::string_view name, double least, double most, std::optional<double> absent) {
  if (failure) return 1;
  const auto value = file_.find_float(key(name));
  if (!value) {
    failure = value.error();
  } else if (!*value) {
    if (absent) return *absent;
    refuse(name, "is missing");
  } else if (!(**value >= least && **value <= most)) {  // NaN is refused too
    refuse(name, fmt::format("is {}, not between {} and {}", **value, least, most));
  } else {
    return **value;
  }
  return 1;
}

std::string_view config_keys::text(std::string_view name, std::string_view absent) {
  if (failure) return absent;
  const auto value = file_.find_string(key(name));
  if (value) return value->value_or(absent);
  failure = value.error();
  return absent;
}

std::vector<std::int32_t> config_keys::array(std::string_view name, std::int64_t layers, std::int64_t least,
                                             std::int64_t most) {
  if (failure) return {};
  const auto values = file_.find_ints(key(name));
  if (!values) {
    failure = values.error();
    return {};
  }
  if (!*values) {
    refuse(name, "is missing");
    return {};
  }
  if (static_cast<std::int64_t>((*values)->size()) != layers) {
    refuse(name, fmt::format("has {} entries for {} layers", (*values)->size(), layers));
    return {};
  }
  std::vector<std::int32_t> result;
  for (const std::int64_t value : **values) {
    if (value < least || value > most) {
      refuse(name, fmt::format("holds {}, not between {} and {}", value, least, most));
      return {};
    }
    result.push_back(static_cast<std::int32_t>(value));
  }
  return result;
}

std::vector<std::int32_t> config_keys::per_layer(std::string_view name, std::int64_t layers, std::int64_t most,
                                                 std::optional<std::int64_t> absent) {
  if (is_array(name)) return array(name, layers, 1, most);
  const auto value = static_cast<std::int32_t>(count(name, most, absent));
  return std::vector<std::int32_t>(static_cast<std::size_t>(layers), value);
}

}  // namespace kvern::gpu::cpu
