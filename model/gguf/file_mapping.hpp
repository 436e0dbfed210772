#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "base/error.hpp"

namespace kvern {

/// A regular file, mapped read-only for as long as the object lives. Movable; safe to read from any thread.
///
/// The mapping follows the file: when another process shortens the file afterwards, reading what is gone raises SIGBUS.
class file_mapping {
 public:
  /// Errors: `model_missing`, `model_unreadable` (no regular file, no permission: then the folder that bars the way is
  /// named).
  static result<file_mapping> open(const std::filesystem::path& path);

  file_mapping(file_mapping&& other) noexcept;
  file_mapping& operator=(file_mapping&& other) noexcept;
  ~file_mapping();

  std::span<const std::byte> bytes() const { return bytes_; }

  /// Lets the kernel drop the pages that lie wholly within `part`, which points into bytes(). They come back from the
  /// file when read again.
  static void forget(std::span<const std::byte> part);

 private:
  explicit file_mapping(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

/// The last component of `path`, quoted for a message; of "folder/" the folder's name.
std::string file_label(const std::filesystem::path& path);

}  // namespace kvern
