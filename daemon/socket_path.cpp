#include "daemon/socket_path.hpp"

#include <fmt/format.h>
#include <sys/un.h>

#include <cstdlib>
#include <filesystem>

namespace kvern::daemon {
namespace {

namespace fs = std::filesystem;

constexpr auto system_socket = "/run/kvern/kvern.sock";
constexpr std::size_t longest_path = sizeof(sockaddr_un::sun_path) - 1;

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

}  // namespace

std::string default_socket() {
  if (const char* named = environment("KVERN_SOCKET")) return named;
  if (const char* runtime = environment("XDG_RUNTIME_DIR")) return (fs::path(runtime) / "kvern.sock").string();
  return system_socket;
}

result<void> check_socket_path(const std::string& path) {
  if (path.size() > longest_path) {
    return fail("socket_path_invalid", fmt::format("the socket path has {} bytes and Unix sockets take {}; name a "
                                                   "shorter one with --socket",
                                                   path.size(), longest_path));
  }
  auto folder = fs::path(path).parent_path();
  if (folder.empty()) folder = ".";
  std::error_code problem;
  if (path == system_socket) fs::create_directory(folder, problem);
  if (!fs::is_directory(folder, problem)) {
    return fail("socket_path_invalid", fmt::format("the folder {} of the socket is not there; make it, or name another "
                                                   "socket with --socket",
                                                   folder.string()));
  }
  return {};
}

}  // namespace kvern::daemon
