#include "tests/support/golden.hpp"

#include <cstdlib>
#include <fstream>
#include <iterator>

namespace kvern::test {

namespace fs = std::filesystem;

std::optional<fs::path> golden(std::string_view relative) {
  const fs::path source = KVERN_SOURCE_DIR;
  std::vector<fs::path> folders{source / "tests/golden"};
  if (const char* named = std::getenv("KVERN_GOLDEN")) folders.emplace_back(named);
  folders.push_back(source / "../shared/golden");
  for (const auto& folder : folders) {
    std::error_code ignored;
    if (fs::exists(folder / relative, ignored)) return folder / relative;
  }
  return std::nullopt;
}

std::optional<fs::path> fetched_model(std::string_view name) {
  const fs::path path = fs::path(KVERN_SOURCE_DIR) / "models" / (std::string(name) + ".gguf");
  std::error_code ignored;
  if (fs::exists(path, ignored)) return path;
  return std::nullopt;
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> read_lines(const fs::path& path) {
  std::vector<std::string> lines;
  std::ifstream in(path, std::ios::binary);
  for (std::string line; std::getline(in, line);) lines.push_back(std::move(line));
  return lines;
}

scratch_folder::scratch_folder() {
  std::string name = (fs::temp_directory_path() / "kvern-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) std::abort();
  path_ = name;
}

scratch_folder::~scratch_folder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace kvern::test
