#include "ipc/listener.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>

namespace kvern::ipc {
namespace {

constexpr int backlog = 1024;

std::string reason(int code) { return std::generic_category().message(code); }

class descriptor {
 public:
  explicit descriptor(int fd) : fd_(fd) {}
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

std::string folder_of(const std::string& path) {
  const auto slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// Holds the lock on the socket's folder: between finding out that a socket file is stale and listening on a new one
/// no other daemon does the same.
result<int> lock_folder(const std::string& path, std::chrono::milliseconds patience) {
  const std::string folder = folder_of(path);
  descriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) {
    return fail(
        "socket_path_invalid",
        fmt::format("cannot open the socket's folder {}: {}; create it or choose another", folder, reason(errno)));
  }
  const auto limit = std::chrono::steady_clock::now() + patience;
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return fail("socket_path_invalid", fmt::format("cannot lock the socket's folder {}: {}", folder, reason(errno)));
    }
    if (std::chrono::steady_clock::now() > limit) {
      return fail("socket_in_use",
                  fmt::format("another program holds a lock on the folder {}; give the socket a folder "
                              "of its own",
                              folder));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return fd.release();
}

/// Makes way for a new socket file. Only a socket that refuses connections is removed.
result<void> clear_path(const std::string& path, const sockaddr_un& address) {
  struct stat file {};
  if (::lstat(path.c_str(), &file) != 0) {
    if (errno == ENOENT) return {};
    return fail("socket_path_invalid", fmt::format("cannot look at {}: {}", path, reason(errno)));
  }
  if (!S_ISSOCK(file.st_mode)) {
    return fail("socket_path_invalid",
                fmt::format("{} exists and is not a socket; move it or choose another path", path));
  }
  const descriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (probe.get() < 0) return fail("socket_path_invalid", fmt::format("cannot make a socket: {}", reason(errno)));
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 || errno == EAGAIN) {
    return fail("socket_in_use", fmt::format("a daemon already answers on {}; stop it or choose another path", path));
  }
  if (errno == ENOENT) return {};
  if (errno != ECONNREFUSED) {
    return fail("socket_path_invalid", fmt::format("cannot tell whether {} is in use: {}", path, reason(errno)));
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return fail("socket_path_invalid", fmt::format("cannot replace the stale socket {}: {}", path, reason(errno)));
  }
  return {};
}

}  // namespace

result<listener> listener::bind(const std::string& path, mode_t mode) {
  sockaddr_un address{};
  constexpr std::size_t longest = sizeof(address.sun_path) - 1;
  if (path.empty() || path.find('\0') != std::string::npos) {
    return fail("socket_path_invalid", "the socket path is empty or holds a NUL byte; give a file path");
  }
  if (path.size() > longest) {
    return fail(
        "socket_path_invalid",
        fmt::format("the socket path has {} bytes, the limit is {}; choose a shorter one", path.size(), longest));
  }
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());

  const auto locked = lock_folder(path, std::chrono::seconds(5));
  if (!locked) return std::unexpected(locked.error());
  const descriptor lock(*locked);
  if (auto cleared = clear_path(path, address); !cleared) return std::unexpected(cleared.error());

  descriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) return fail("socket_path_invalid", fmt::format("cannot make a socket: {}", reason(errno)));
  // The file is made with the socket's mode less the umask, never with more than `mode`.
  (void)::fchmod(fd.get(), mode);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return fail(errno == EADDRINUSE ? "socket_in_use" : "socket_path_invalid",
                fmt::format("cannot bind {}: {}; check the folder and its permissions", path, reason(errno)));
  }
  listener bound;
  struct stat file {};
  const bool known = ::lstat(path.c_str(), &file) == 0 && S_ISSOCK(file.st_mode);
  if (!known) return fail("socket_path_invalid", fmt::format("{} was replaced while it was bound", path));
  bound.path_ = path;
  bound.device_ = file.st_dev;
  bound.inode_ = file.st_ino;
  if (::chmod(path.c_str(), mode) != 0 || ::listen(fd.get(), backlog) != 0) {
    auto failed = fail("socket_path_invalid", fmt::format("cannot listen on {}: {}", path, reason(errno)));
    ::unlink(path.c_str());
    bound.path_.clear();
    return failed;
  }
  bound.fd_ = fd.release();
  return bound;
}

result<listener> listener::adopt(int fd) {
  listener adopted;
  adopted.fd_ = fd;
  const auto option = [fd](int name) {
    int value = -1;
    socklen_t size = sizeof(value);
    return ::getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
  };
  if (option(SO_DOMAIN) != AF_UNIX || option(SO_TYPE) != SOCK_STREAM || option(SO_ACCEPTCONN) != 1) {
    return fail("socket_path_invalid",
                fmt::format("descriptor {} is no listening Unix stream socket; check the socket unit", fd));
  }
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 || ::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
    return fail("socket_path_invalid", fmt::format("cannot set up descriptor {}: {}", fd, reason(errno)));
  }
  return adopted;
}

listener::~listener() {
  remove_file();
  if (fd_ >= 0) ::close(fd_);
}

void listener::remove_file() {
  if (path_.empty()) return;
  const std::string path = std::exchange(path_, {});
  // A file that is left is stale, and replaced by the next start: no reason to wait long.
  const auto locked = lock_folder(path, std::chrono::milliseconds(100));
  if (!locked) return;
  const descriptor lock(*locked);
  struct stat file {};
  if (::lstat(path.c_str(), &file) == 0 && file.st_dev == device_ && file.st_ino == inode_) ::unlink(path.c_str());
}

void listener::swap(listener& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  std::swap(device_, other.device_);
  std::swap(inode_, other.inode_);
}

}  // namespace kvern::ipc
