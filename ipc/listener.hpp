#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace kvern::ipc {

/// A listening AF_UNIX socket, and the file it is reached by when it was bound here. Removes that file when it goes,
/// unless another socket took the name meanwhile. Movable; not thread-safe.
class listener {
 public:
  /// Binds and listens on `path`; the file has mode `mode` before anybody can connect. A socket file that nobody
  /// listens on is replaced; daemons that start at once are kept apart by a lock on the folder.
  /// Errors: `socket_in_use`, `socket_path_invalid`.
  static result<listener> bind(const std::string& path, mode_t mode);

  /// Takes over a listening AF_UNIX stream socket. It is closed in any case; its file is not touched.
  /// Errors: `socket_path_invalid`.
  static result<listener> adopt(int fd);

  listener(listener&& other) noexcept { swap(other); }
  listener& operator=(listener&& other) noexcept {
    swap(other);
    return *this;
  }
  ~listener();

  /// The descriptor, non-blocking and close-on-exec. Owned by this until `release`.
  int fd() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

  /// Removes the socket file now, if it is still the one that was bound.
  void remove_file();

 private:
  listener() = default;
  void swap(listener& other) noexcept;

  int fd_ = -1;
  std::string path_;  ///< empty: adopted, or removed
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace kvern::ipc
