#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace kvern {

static_assert(std::endian::native == std::endian::little, "GGUF is little-endian and is read in place");

/// The value that the first sizeof(T) bytes of `bytes` hold, at any alignment. `bytes` is at least that long.
template <class T>
requires std::is_arithmetic_v<T> T load(std::span<const std::byte> bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Reads forward through bytes it doesn't own and never past their end: what isn't there is nullopt, and the place
/// stays where it was. Not thread-safe.
class byte_reader {
 public:
  explicit byte_reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::size_t position() const { return position_; }
  std::size_t left() const { return bytes_.size() - position_; }

  template <class T>
  std::optional<T> read() {
    const auto bytes = take(sizeof(T));
    if (!bytes) return std::nullopt;
    return load<T>(*bytes);
  }

  std::optional<std::span<const std::byte>> take(std::uint64_t count) {
    if (count > left()) return std::nullopt;
    const auto taken = bytes_.subspan(position_, static_cast<std::size_t>(count));
    position_ += taken.size();
    return taken;
  }

  /// A u64 length and as many bytes; the view points into the bytes read.
  std::optional<std::string_view> read_string() {
    const std::size_t start = position_;
    if (const auto length = read<std::uint64_t>()) {
      if (const auto bytes = take(*length)) return as_text(*bytes);
    }
    position_ = start;
    return std::nullopt;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
};

}  // namespace kvern
