#pragma once

#include <string>

#include "base/error.hpp"

namespace kvern::daemon {

/// Where kvernd listens when nothing says so: $KVERN_SOCKET, $XDG_RUNTIME_DIR/kvern.sock, /run/kvern/kvern.sock.
std::string default_socket();

/// What can be known of a socket path before the model is loaded: its length, and that its folder is there (the folder
/// of the last default is made when root may). Errors: `socket_path_invalid`.
result<void> check_socket_path(const std::string& path);

}  // namespace kvern::daemon
