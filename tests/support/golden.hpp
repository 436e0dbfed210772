#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvern::test {

/// A file of the reference data, e.g. "quants/index.json": from tests/golden, else from KVERN_GOLDEN or the folder
/// shared/golden beside the project. Nullopt: not here, so the test that needs it skips.
std::optional<std::filesystem::path> golden(std::string_view relative);

/// A model of deploy/fetch-model, e.g. "smollm2": models/NAME.gguf. Nullopt: not fetched.
std::optional<std::filesystem::path> fetched_model(std::string_view name);

/// All bytes of a file; empty when it cannot be read.
std::string read_file(const std::filesystem::path& path);

/// The lines of a file, split on '\n' only.
std::vector<std::string> read_lines(const std::filesystem::path& path);

/// A folder of this test's own, made empty, removed with the object.
class scratch_folder {
 public:
  scratch_folder();
  ~scratch_folder();
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace kvern::test
