#include "model/gguf/file_mapping.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include "model/gguf/quoted_name.hpp"

namespace kvern {

namespace fs = std::filesystem;

namespace {

class descriptor {
 public:
  explicit descriptor(int fd) : fd_(fd) {}
  ~descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

/// The outermost folder on the way to `path` that this process may not search; empty if there is none.
fs::path barred_folder(const fs::path& path) {
  std::error_code failure;
  const fs::path full = fs::absolute(path, failure);
  if (failure) return {};
  fs::path folder;
  for (const auto& part : full.parent_path()) {
    folder /= part;
    struct stat ignored {};
    if (::stat((folder / ".").c_str(), &ignored) != 0 && errno == EACCES) return folder;
  }
  return {};
}

std::unexpected<error> open_failure(const fs::path& path, int cause) {
  const std::string label = file_label(path);
  if (cause == ENOENT || cause == ENOTDIR) {
    return fail("model_missing", fmt::format("There is no file {}; check the model's path or fetch the model.", label));
  }
  if (cause == EACCES) {
    if (const fs::path barred = barred_folder(path); !barred.empty()) {
      return fail(
          "model_unreadable",
          fmt::format("{} cannot be reached: this user may not enter the folder {}; change its permissions, the "
                      "service's ProtectHome, or move the model.",
                      label, file_label(barred)));
    }
    return fail("model_unreadable", fmt::format("This user may not read {}; change the file's permissions.", label));
  }
  return fail("model_unreadable",
              fmt::format("{} cannot be opened: {}.", label, std::generic_category().message(cause)));
}

}  // namespace

std::string file_label(const fs::path& path) {
  const fs::path name = path.filename().empty() ? path.parent_path().filename() : path.filename();
  return quoted_name(name.native());
}

result<file_mapping> file_mapping::open(const fs::path& path) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  const descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return open_failure(path, errno);

  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return open_failure(path, errno);
  if (S_ISDIR(status.st_mode)) {
    return fail("model_unreadable", fmt::format("{} is a folder; name the .gguf file itself.", file_label(path)));
  }
  if (!S_ISREG(status.st_mode)) {
    return fail("model_unreadable", fmt::format("{} is not a regular file; name a .gguf file.", file_label(path)));
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return file_mapping({});

  void* start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (start == MAP_FAILED) {
    return fail("model_unreadable", fmt::format("{} cannot be mapped into memory: {}.", file_label(path),
                                                std::generic_category().message(errno)));
  }
  return file_mapping({static_cast<const std::byte*>(start), size});
}

file_mapping::file_mapping(file_mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

file_mapping& file_mapping::operator=(file_mapping&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

file_mapping::~file_mapping() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void file_mapping::forget(std::span<const std::byte> part) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto start = reinterpret_cast<std::uintptr_t>(part.data());
  const std::uintptr_t first = (start + page - 1) / page * page;
  const std::uintptr_t end = (start + part.size()) / page * page;
  // Advice only: when the kernel declines it, nothing changes but memory use.
  if (first < end) (void)::madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

}  // namespace kvern
